"""The broker: listens, stores, serves and looks after topics and partitions."""
