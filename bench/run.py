"""`make bench [SECTION=…]`: prints tables, writes bench/results.json. Read the ratios, not the numbers."""

import json
import os
import platform
import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
SECTIONS = (
    "compute",
    "coroutines",
    "engine",
    "first_result",
    "fixity",
    "images",
    "ingest",
    "library",
    "library_convert",
    "library_ingest",
    "ocr",
    "queues",
    "recipes",
)


def table(rows: list[dict[str, object]]) -> None:
    heads = list(rows[0])
    cells = [
        [f"{row[head]:,}" if isinstance(row[head], int | float) else str(row[head]) for head in heads]
        for row in rows
    ]
    widths = [max(len(head), *(len(line[i]) for line in cells)) for i, head in enumerate(heads)]
    for line in (heads, *cells):
        print("  " + "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else "all"
    if wanted not in {"all", *SECTIONS}:
        sys.exit(f"no section {wanted!r}; there are: {', '.join(SECTIONS)}")
    # The starters of servers are in the tests.
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    target = HERE / "results.json"
    results = json.loads(target.read_text()) if target.exists() else {}
    results["machine"] = {"cores": os.cpu_count(), "python": platform.python_version()}
    for section in SECTIONS if wanted == "all" else (wanted,):
        print(f"\n{section}")
        found = import_module(section).run()
        table(found["rows"])
        for name, value in found.items():
            if name != "rows":
                print(f"  {name.replace('_', ' ')}: {value}")
        results[section] = found
    target.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {target.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
