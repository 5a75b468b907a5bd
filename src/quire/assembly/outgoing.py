"""Calls to addresses that others have named: from settings."""

from quire.settings import Settings
from quire.tools.outgoing import Outgoing


def open_outgoing(settings: Settings) -> Outgoing:
    chosen = settings.webhooks
    return Outgoing(allow_private=chosen.allow_private, timeout_seconds=chosen.timeout_seconds)
