"""Text for terminals. Text from outside is displayed and never interpreted."""

import unicodedata


def printable(text: object) -> str:
    """Control and format characters become escapes: a file name cannot colour, hide or rewrite a message."""
    return "".join(
        character if unicodedata.category(character) not in {"Cc", "Cf", "Cs"} else ascii(character)[1:-1]
        for character in str(text)
    )


def plural(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def format_bytes(number: int) -> str:
    size = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
