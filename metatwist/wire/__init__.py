"""The MetaQ 1.4 wire protocol as a sans-I/O codec, shared by broker and client."""
