"""The client under load for minutes, while all around it fails: `make soak`."""
