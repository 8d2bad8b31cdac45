"""The pure parts of the command line of the client."""
