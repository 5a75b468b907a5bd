"""Compute through a queue: workers need only a queue and a store."""
