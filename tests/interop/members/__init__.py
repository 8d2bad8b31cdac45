"""Our client as a child process, steered as the Java driver is."""
