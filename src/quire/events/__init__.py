"""Webhooks: which addresses are notified of events, and how deliveries are signed, sent and retried."""
