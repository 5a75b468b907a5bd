"""Times: from ISO 8601 durations and from words to minutes."""


def parse_minutes(text: str) -> int | None:
    """Read the first time in the text: `PT1H20M`, `1 hr 10`, `20-25 minutes` (25), `overnight` (480).

    None for no time, a negative one, or one above 30 days.
    """
    raise NotImplementedError
