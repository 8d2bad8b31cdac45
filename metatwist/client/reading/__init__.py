"""The messages of partitions, fetched in order (spec client 11, 15, 18)."""
