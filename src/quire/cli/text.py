"""Text from outside on a terminal: shown, never obeyed."""

import unicodedata


def shown(text: object) -> str:
    """Control and format characters spelled out: a file name must not colour, hide or rewrite what we say."""
    return "".join(
        character if unicodedata.category(character) not in {"Cc", "Cf", "Cs"} else ascii(character)[1:-1]
        for character in str(text)
    )


def many(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
