"""Coordination: the tree of znodes, and what is in it."""
