"""The `metatwist` command."""
