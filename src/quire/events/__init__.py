"""Webhooks: who is notified of events, and how deliveries are signed, sent and retried."""
