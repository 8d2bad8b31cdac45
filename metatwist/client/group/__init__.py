"""Which partitions a consumer reads: shared out in its group, or given by hand.

`membership` puts the parts together: `registration` says that we are there, `view`
reads who else is and what there is to read, `shares` computes whose is what,
`rebalancing` drives each partition there (`slot`), by owner nodes that
`owner_nodes` makes, and `lease` knows whether all that can still be proven. `fixed`
needs no group.
"""
