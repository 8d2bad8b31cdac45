"""The brokers for users' tests: held to the real one, and to their own promises."""
