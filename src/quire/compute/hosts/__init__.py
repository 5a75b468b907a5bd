"""Host processes: many coroutines at once in one process, for steps that wait more than they work."""
