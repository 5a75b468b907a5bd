"""Use cases of tasks that run on remote workers: what a worker is given, and how its callback is settled."""
