"""Partitions on disk: segments, recovery, retention. No Twisted, no clock."""
