"""`quire scheduler`, `quire worker` and `quire task`."""
