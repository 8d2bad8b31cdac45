"""Tests of how the client finds brokers."""
