"""The published wire forms on Redis: plain lists, and the queue of an RQ worker."""
