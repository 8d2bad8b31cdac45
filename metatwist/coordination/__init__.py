"""How brokers and clients find each other: a tree of znodes, met in one of two ways.

`interface` says what a coordinator is; `ensemble` meets a real ZooKeeper, `embedded`
keeps the tree in this process. `layout` and `formats` know what MetaQ puts where, and
`groups` reads consumer groups. Nothing here knows the broker.
"""
