"""`quire queue`: queues and dead letters."""
