"""Consumers of queues, and the administration of queues and dead letters."""
