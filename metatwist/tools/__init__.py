"""What `metatwist produce`, `consume`, `browse` and `bench` do, on the client."""
