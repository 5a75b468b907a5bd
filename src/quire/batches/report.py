"""What an export leaves in its folder beside the files: `report.json` and a page to look at.

The report lists every input file exactly once with its outcome; it is written file by file, whatever its
length. On the page, names and reasons come from outside: everything is escaped, links are percent-encoded,
and the page allows no script and nothing from elsewhere.
"""

import os
import shutil
from collections.abc import Sequence
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import msgspec

from quire.batches.lines import build_step_lines, list_failures, sum_costs
from quire.ledger.port import InputRecord
from quire.model.batch import Batch, FileOutcome, PhaseCounts
from quire.model.clock import timestamp
from quire.model.output_rules import DOUBTFUL_ROLE

REPORT_NAME = "report.json"
PAGE_NAME = "index.html"
KEPT_REPORTS = "reports"  # the folder for reports of several batches
# A browser does not cope with a hundred thousand pictures; report.json has everything.
MAX_CARDS = 2000
_encoder = msgspec.json.Encoder()
_STYLE = """
:root{--ink:#22252b;--paper:#f6f4ef;--card:#fff;--line:#e2ddd2;--quiet:#6c6f76;
--done:#2f7d4f;--failed:#b3362b;--skipped:#8a7a4f;color-scheme:light dark}
@media (prefers-color-scheme:dark){:root{--ink:#e8e6e1;--paper:#1b1c1f;--card:#25272b;--line:#383b41;
--quiet:#9da1a9;--done:#6fc08f;--failed:#f08a7f;--skipped:#cbb777}}
*{box-sizing:border-box}
body{margin:0;font:15px/1.5 system-ui,sans-serif;background:var(--paper);color:var(--ink)}
header{padding:2rem 2rem 1rem}h1{margin:0;font-size:1.5rem}p{margin:.3rem 0;color:var(--quiet)}
main{display:grid;align-items:start;gap:1rem;padding:1rem 2rem 3rem;
grid-template-columns:repeat(auto-fill,minmax(17rem,1fr))}
article{background:var(--card);border:1px solid var(--line);border-left:4px solid var(--c);border-radius:6px;
padding:.9rem;overflow-wrap:anywhere}
.done{--c:var(--done)}.failed{--c:var(--failed);order:-2}.skipped{--c:var(--skipped);order:1}
h2{font-size:.95rem;margin:0 0 .4rem}.state{color:var(--c);font-weight:600;font-size:.8rem}
img{display:block;max-width:100%;max-height:12rem;margin:.5rem 0;border:1px solid var(--line);background:#fff}
ul{margin:.3rem 0 0;padding-left:1.1rem;font-size:.82rem}
summary{cursor:pointer;font-size:.85rem;color:var(--quiet)}a{color:inherit}.reason{font-size:.88rem;color:var(--ink)}
"""


class ReportWriter:
    """Writes the files to a part file first: the counts that precede them are known only at the end."""

    def __init__(self, out: Path, batch_id: str, pipeline: str) -> None:
        self.path = out / REPORT_NAME
        self._head = {"batch_id": batch_id, "pipeline": pipeline}
        self._part = out / ".report.json.part"
        self._files = out / ".report.files.part"

    def __enter__(self) -> Self:
        self._out = self._files.open("wb")
        self._separator = b""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.close()
        self._files.unlink(missing_ok=True)
        self._part.unlink(missing_ok=True)

    def add(self, record: InputRecord, outputs: Sequence[str]) -> None:
        value = {
            "path": record.path,
            "status": record.outcome,
            "reason": record.reason or None,
            "error_class": record.error_class or None,
            "doubtful": is_doubtful(record),
            "outputs": outputs,
            "attempts": record.attempts,
            "size": record.size,
            "steps": build_step_lines(record),
        }
        self._out.write(self._separator + _encoder.encode(value))
        self._separator = b",\n    "

    def finish(
        self, counts: dict[str, int], batch: Batch, phases: Sequence[PhaseCounts], seconds: float
    ) -> None:
        self._out.close()
        head = self._head | {
            "status": batch.status,
            "error": batch.error,
            "counts": counts,
            "started_at": timestamp(batch.created_at),
            "completed_at": timestamp(batch.completed_at) if batch.completed_at else None,
            "seconds": round(seconds, 3),
            "spent": sum_costs([phase.spent for phase in phases]),
            # Last, as it ends with a bracket: the files are written where the closing brace would stand.
            "phases": [
                {"name": phase.name, "total": phase.total, "done": phase.done, "failed": phase.failed}
                | {"from_cache": phase.cached}
                for phase in phases
            ],
        }
        with self._part.open("wb") as part:
            part.write(msgspec.json.format(_encoder.encode(head), indent=2).rstrip(b"\n}"))
            part.write(b',\n  "files": [\n    ')
            with self._files.open("rb") as files:
                while piece := files.read(1 << 20):
                    part.write(piece)
            part.write(b"\n  ]\n}\n")
            part.flush()
            os.fsync(part.fileno())
        self._part.replace(self.path)


def keep_report(out: Path, batch_id: str) -> None:
    """A copy of the report by the name of its batch."""
    folder = out / KEPT_REPORTS
    folder.mkdir(exist_ok=True)
    part = folder / f".{batch_id}.json.part"
    shutil.copyfile(out / REPORT_NAME, part)
    part.replace(folder / f"{batch_id}.json")


class ResultsPage:
    """`index.html`: one card per file, failures first."""

    def __init__(self, out: Path, batch_id: str, pipeline: str) -> None:
        self.path = out / PAGE_NAME
        self._part = out / ".index.html.part"
        self._title = f"Batch {batch_id}"
        self._pipeline = pipeline
        self._cards: dict[bool, list[str]] = {True: [], False: []}  # failed or not
        self._left_out = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._part.unlink(missing_ok=True)

    def add(self, record: InputRecord, outputs: Sequence[str]) -> None:
        # Half of the page is reserved for failures: they are what people look for.
        cards = self._cards[record.outcome is FileOutcome.FAILED]
        if len(cards) >= MAX_CARDS // 2:
            self._left_out += 1
            return
        cards.append(_build_card(record, outputs))

    def finish(self, counts: dict[str, int]) -> None:
        numbers = (
            f"{counts['files']} files in · {counts['done']} done · {counts['failed']} failed · "
            f"{counts['skipped']} skipped · {counts['outputs']} results"
        )
        more = f"<p>{self._left_out} more files are in report.json.</p>" if self._left_out else ""
        self._part.write_text(
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src 'self'; "
            "style-src 'unsafe-inline'\">"
            f"<title>{escape(self._title)}</title><style>{_STYLE}</style></head><body>"
            f"<header><h1>{escape(self._title)}</h1>"
            f"<p>Pipeline {escape(self._pipeline)} · {numbers}</p>{more}"
            '<p><a href="report.json">report.json</a></p></header>'
            f"<main>{''.join(self._cards[True] + self._cards[False])}</main></body></html>\n",
            encoding="utf-8",
        )
        self._part.replace(self.path)


def _build_card(record: InputRecord, outputs: Sequence[str]) -> str:
    roles = [role for role, _ in record.made]
    # A picture without a thumb is no larger than one.
    shown = next((outputs[roles.index(role)] for role in ("thumb", "jpeg") if role in roles), None)
    picture = f'<img loading="lazy" alt="" src="{_quote_link(shown)}">' if shown else ""
    reason = "".join(f'<p class="reason">{escape(text)}</p>' for _, text in list_failures(record) if text)
    good = ", ".join(one.step for one in record.steps if not one.failed)
    done = f"<p>done: {escape(good)}</p>" if good else ""
    links = "".join(f'<li><a href="{_quote_link(path)}">{escape(path)}</a></li>' for path in outputs)
    results = (
        f"<details><summary>{pluralize(len(outputs), 'result')}</summary><ul>{links}</ul></details>"
        if outputs
        else ""
    )
    state = record.outcome.value
    label = f"{state} ({record.error_class})" if record.outcome is FileOutcome.FAILED else state
    label += ", doubtful" if is_doubtful(record) else ""
    return (
        f'<article class="{state}"><h2>{escape(record.path)}</h2><span class="state">{escape(label)}</span>'
        f"{picture}{reason}{done}{results}</article>"
    )


def is_doubtful(record: InputRecord) -> bool:
    """Whether a step says that part of what it made of the file cannot be relied on."""
    return any(role == DOUBTFUL_ROLE for role, _ in record.made)


def pluralize(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _quote_link(path: str) -> str:
    return "./" + quote(path)
