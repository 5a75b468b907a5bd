"""Turns settings into components: the only place where ports meet adapters.

`house` for a program that runs batches, `worker` for the entrance of a worker process, which must start
quickly and so imports little, `stores` for what both need.
"""
