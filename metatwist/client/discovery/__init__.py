"""Where brokers are and what they serve: by a coordinator, or by addresses alone."""
