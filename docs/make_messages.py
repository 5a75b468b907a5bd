"""Writes the schemas and examples on `docs/reference/messages.md` from `quire.model.envelopes`.

`python docs/make_messages.py` rewrites the page between its markers; with `--check` it changes nothing
and exits with 1 when the page is out of date.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from quire.api.asyncapi import MESSAGES
from quire.model.envelope_schemas import build_schema

PAGE = Path(__file__).parent / "reference" / "messages.md"


def show_json(value: Any) -> str:
    return f"```json\n{json.dumps(value, indent=1, ensure_ascii=False)}\n```"


def write_examples() -> str:
    parts = []
    for _, kind, about, example in MESSAGES:
        parts += [f"### `{kind.value}`", about, show_json(example)]
    return "\n\n".join(parts)


def write_schemas() -> str:
    parts = []
    for struct in dict.fromkeys(one[0] for one in MESSAGES):
        schema = build_schema(struct)
        parts += [f"### `{schema['$id']}`", show_json(schema)]
    return "\n\n".join(parts)


def main() -> int:
    page = PAGE.read_text("utf-8")
    made = page
    for name, text in (("examples", write_examples()), ("schemas", write_schemas())):
        block = f"<!-- {name} begin -->\n\n{text}\n\n<!-- {name} end -->"
        pattern = re.compile(rf"<!-- {name} begin -->.*?<!-- {name} end -->", re.DOTALL)
        made = pattern.sub(lambda _, block=block: block, made)
    if "--check" in sys.argv[1:]:
        return int(made != page)
    PAGE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
