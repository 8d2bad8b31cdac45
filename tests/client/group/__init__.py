"""Group membership and rebalancing."""
