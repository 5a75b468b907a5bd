"""What a worker was told in confidence, taken out of what is said about it.

Keys and signed addresses stand in the environment of workers. What they, or those who start them, say before
they end becomes part of reports and logs.
"""

from collections.abc import Mapping

SHORTEST = 6  # of a value that is looked for: shorter ones are words of any text
_TELLING = ("SECRET", "ACCESS_KEY", "TOKEN", "PASSWORD", "_URL")


def discreet(text: str, environment: Mapping[str, str]) -> str:
    """The text without the values of these variables that could be secrets."""
    secrets = {
        value
        for name, value in environment.items()
        if len(value) >= SHORTEST and any(part in name for part in _TELLING)
    }
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, "…")
    return text
