"""Sizes and lengths of time in words."""


def size_of(number: int) -> str:
    amount = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{number} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return ""


def span(seconds: float) -> str:
    """In two units at most: `2 d 3 h`, `4 min 10 s`."""
    whole = max(0, round(seconds))
    units = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    for (unit, length), (small, part) in zip(units, (*units[1:], ("", 1)), strict=True):
        if whole >= length and unit != "s":
            rest = whole % length // part
            return f"{whole // length} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"
