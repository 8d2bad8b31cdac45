"""metatwist: the MetaQ 1.4 message broker on Twisted."""

__version__ = "0.1.0"
