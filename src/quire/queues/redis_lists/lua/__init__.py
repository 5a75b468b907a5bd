"""The scripts of the queues on Redis lists: each is one step that happens as a whole or not at all."""
