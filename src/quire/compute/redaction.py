"""Removes the secrets of a worker's environment from texts about it.

The environment of workers holds keys and signed URLs. What a worker, or the service that starts it, writes
before the end becomes part of reports and logs.
"""

from collections.abc import Mapping

SHORTEST = 6  # value that is removed: shorter ones occur in any text
_SECRET_NAMES = ("SECRET", "ACCESS_KEY", "TOKEN", "PASSWORD", "_URL")


def redact(text: str, environment: Mapping[str, str]) -> str:
    """The text without those values of the environment that could be secrets."""
    secrets = {
        value
        for name, value in environment.items()
        if len(value) >= SHORTEST and any(part in name for part in _SECRET_NAMES)
    }
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, "…")
    return text
