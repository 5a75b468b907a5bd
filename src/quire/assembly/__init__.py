"""Turns settings into components: the only place where ports meet adapters.

`components` builds what every process works with, `engine` adds an engine to it, `server` runs `quire serve`.
`worker` is the entry point of a worker process: it must start quickly, so it imports little.
"""
