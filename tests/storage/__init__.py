"""Storage: what is on disk, what readers get, what survives."""
