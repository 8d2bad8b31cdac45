"""Tests; a package, so that its parts can share code."""
