"""Sending: where a message goes, when it is tried again, what came of it."""
