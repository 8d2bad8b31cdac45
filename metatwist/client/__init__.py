"""A Deferred client for MetaQ brokers."""
