"""Where consumers keep their offsets."""
