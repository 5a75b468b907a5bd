"""The client for calls to addresses that users have given, from settings."""

from quire.settings import Settings
from quire.tools.outgoing_client import OutgoingClient


def open_outgoing(settings: Settings) -> OutgoingClient:
    chosen = settings.webhooks
    return OutgoingClient(allow_private=chosen.allow_private, timeout_seconds=chosen.timeout_seconds)
