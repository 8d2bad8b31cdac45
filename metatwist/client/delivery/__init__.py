"""From the messages of a partition to the user: listeners, acks, pull mode, and what
becomes of messages that nobody can use (spec client 12 to 14)."""
