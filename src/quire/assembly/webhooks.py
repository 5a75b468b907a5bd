"""Webhooks put together: the desk where they are added, and the messenger that sends."""

from quire.service.house import Office
from quire.service.messenger import DeliveryPolicy, Messenger
from quire.service.webhooks import HookDesk
from quire.settings import Settings
from quire.system import LoopSignal
from quire.tools.outgoing import Outgoing

NAMELESS = "urn:quire"  # how a server without a public URL calls itself in events


def build_outgoing(settings: Settings) -> Outgoing:
    chosen = settings.webhooks
    return Outgoing(allow_private=chosen.allow_private, timeout_seconds=chosen.timeout_seconds)


def build_hook_desk(settings: Settings, office: Office) -> HookDesk:
    return HookDesk(
        ledger=office.ledger, outgoing=build_outgoing(settings), clock=office.clock, ids=office.ids
    )


def build_messenger(settings: Settings, office: Office) -> Messenger:
    """To be called, and run, on the loop on which it sends."""
    chosen = settings.webhooks
    return Messenger(
        ledger=office.ledger,
        outgoing=build_outgoing(settings),
        clock=office.clock,
        signal=LoopSignal(),
        fraction=office.ids.fraction,
        source=settings.serve.public_url.rstrip("/") or NAMELESS,
        policy=DeliveryPolicy(
            max_tries=chosen.max_tries, timeout_seconds=chosen.timeout_seconds, at_once=chosen.at_once
        ),
    )
