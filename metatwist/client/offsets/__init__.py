"""Where consumers keep their offsets: one interface, several storages."""
