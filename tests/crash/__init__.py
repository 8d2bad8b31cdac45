"""Killing real brokers under load, and looking whether anything is missing after it."""
