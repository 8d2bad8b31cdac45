"""A coordinator inside the broker: znodes in memory, SQLite beneath, served on a port.

`tree` holds the znodes and `watches` who waits for them; `sessions` who is there.
`store` and `journal` keep what must survive. `codec`, `requests` and `connection` speak
ZooKeeper's protocol, and `service` puts it together as an ICoordinator.
"""
