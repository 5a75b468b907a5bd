"""Draws a pipeline with characters: phases from top to bottom, their steps side by side, and what flows.

Pure: lines of text from a plan, at most as wide as asked for. Names come from people's code and are shown,
not interpreted.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from re import escape, finditer
from textwrap import wrap

from msgspec import Struct

from quire.cli.text import plural, printable
from quire.model.plan import Accepts, OnFailure, Plan, PlanPhase, PlanStep, PlanUnit

INDENT = "   "
NARROWEST = 24
WIDEST = 56
_UNITS = {
    PlanUnit.FILE: "one task per document",
    PlanUnit.FOLDER: "one task per folder",
    PlanUnit.BATCH: "one task for the batch",
}
_WAITS = {
    PlanUnit.FOLDER: "waits for the documents of the folder and for the folders below it",
    PlanUnit.BATCH: "waits for all documents",
}


class Box(Struct, frozen=True):
    """A step as it is drawn: its title and what is said about it, label by label."""

    title: str
    rows: tuple[tuple[str, str], ...]


def draw(pipeline: Plan, width: int = 80) -> list[str]:
    lines = ["", f"{INDENT}documents", f"{INDENT}    │"]
    for number, phase in enumerate(pipeline.phases, 1):
        lines.append(f"{number:>2} {printable(phase.name)}: {_describe_tasks(phase)}")
        if phase.unit in _WAITS:
            lines.append(f"{INDENT}{_WAITS[phase.unit]}")
        boxes = _draw_boxes(_list_boxes(phase), width - len(INDENT))
        lines += [f"{INDENT}{line}".rstrip() for line in boxes]
        lines += _draw_flow(pipeline, number, width)
    lines.append(f"{INDENT}results")
    return lines


def _describe_tasks(phase: PlanPhase) -> str:
    text = _UNITS[phase.unit]
    if len(phase.steps) == 1:
        return text
    most = "" if len({one.accepts for one in phase.steps}) == 1 else "up to "
    return text.replace("one task", f"{most}{len(phase.steps)} tasks") + ", side by side"


def describe_accepts(step: PlanStep, branches: Sequence[PlanStep] = ()) -> str:
    """What a step takes. Where its `branches` differ from each other, by their names, stands `{branch}`."""
    accepts = _join_branches(branches) if len(branches) > 1 else step.accepts
    kinds = " or ".join(printable(one) for one in accepts.kinds) or "every document"
    needs = "".join(f" with {printable(one)}" for one in accepts.needs)
    refuses = " or ".join(printable(one) for one in accepts.refuses)
    return f"{kinds}{needs}" + (f", not {refuses}" if refuses else "")


def _join_branches(branches: Sequence[PlanStep]) -> Accepts:
    def join(patterns: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(_join_patterns(alike, branches) for alike in zip(*patterns, strict=True))

    return Accepts(
        kinds=join([one.accepts.kinds for one in branches]),
        needs=join([one.accepts.needs for one in branches]),
        refuses=join([one.accepts.refuses for one in branches]),
    )


def _join_patterns(patterns: Sequence[str], branches: Sequence[PlanStep]) -> str:
    """The pattern behind the patterns of all branches, which were made of the same one."""
    first, name = patterns[0], branches[0].branch
    if len(set(patterns)) == 1:
        return first
    for place in (found.start() for found in finditer(escape(name), first)):
        before, after = first[:place], first[place + len(name) :]
        if all(one == f"{before}{step.branch}{after}" for one, step in zip(patterns, branches, strict=True)):
            return f"{before}{{branch}}{after}"
    return " or ".join(patterns)


def group_branches(steps: Sequence[PlanStep]) -> list[list[PlanStep]]:
    """The branches of one function together; other steps alone."""
    groups: dict[str, list[PlanStep]] = {}
    for step in steps:
        base = step.name.removesuffix(f".{step.branch}") if step.branch else step.name
        groups.setdefault(base, []).append(step)
    return list(groups.values())


def _list_boxes(phase: PlanPhase) -> list[Box]:
    return [_box_of_steps(group, waits=phase.waits) for group in group_branches(phase.steps)]


def _box_of_steps(group: Sequence[PlanStep], *, waits: bool) -> Box:
    step = group[0]
    title = step.name.removesuffix(f".{step.branch}") if step.branch else step.name
    rows = [("accepts", describe_accepts(step, group))]
    if step.branch:
        rows.append(("for each", ", ".join(one.branch for one in group)))
    if waits:
        rows.append(("takes", "its documents and their values"))
    elif step.takes:
        rows.append(("takes", ", ".join(_describe_taken(step))))
    rows.append(("gives", "a value" if step.gives_value else "files"))
    rows.append(("limits", _limits(step.timeout_seconds, step.max_attempts, step.at_once, step.resource)))
    if step.on_failure is OnFailure.STOP:
        rows.append(("if it fails", "the document stops"))
    if step.external:
        rows.append(("waits", "for an answer from outside"))
    if step.asynchronous:
        rows.append(("runs", "many at once in one process"))
    if step.compute:
        rows.append(("runs on", step.compute))
    return Box(f"{title} ({len(group)} tasks)" if step.branch else title, tuple(rows))


def _describe_taken(step: PlanStep) -> Iterator[str]:
    for taken in step.takes:
        many = len(taken.steps) > 1
        name = f"{taken.steps[0].partition('.')[0]} (all {len(taken.steps)})" if many else taken.steps[0]
        yield name if taken.required else f"{name} if there"


def _limits(seconds: float, tries: int, at_once: int, resource: str) -> str:
    parts = [f"{seconds:g} s", plural(tries, "try").replace("trys", "tries")]
    if at_once:
        parts.append(f"{at_once} at once")
    if resource:
        parts.append(f"shares {resource}")
    return ", ".join(parts)


def _draw_boxes(boxes: Sequence[Box], width: int) -> list[str]:
    """Side by side as many as fit, the others below."""
    drawn = [_draw_box(box, min(WIDEST, max(NARROWEST, width))) for box in boxes]
    rows: list[list[list[str]]] = []
    for one in drawn:
        used = sum(len(other[0]) + 1 for other in rows[-1]) if rows else width
        if rows and used + len(one[0]) <= width:
            rows[-1].append(one)
        else:
            rows.append([one])
    return [line for row in rows for line in _join(row)]


def _join(row: Sequence[list[str]]) -> list[str]:
    widths = [len(box[0]) for box in row]
    return [
        " ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()
        for parts in zip_longest(*row, fillvalue="")
    ]


def _draw_box(box: Box, width: int) -> list[str]:
    labels = max((len(label) for label, _ in box.rows), default=0)
    room = width - 4
    lines = wrap(printable(box.title), room) or [""]
    for label, text in box.rows:
        parts = wrap(printable(text), room - labels - 2, break_on_hyphens=False) or [""]
        lines.append(f"{label:<{labels}}  {parts[0]}")
        lines += [f"{'':<{labels}}  {part}" for part in parts[1:]]
    inner = max(map(len, lines))
    bar = "─" * (inner + 2)
    return [f"┌{bar}┐", *(f"│ {line:<{inner}} │" for line in lines), f"└{bar}┘"]


def _draw_flow(pipeline: Plan, number: int, width: int) -> list[str]:
    """The way to the next phase, with the values that later steps take."""
    names = list(_list_values_in_use(pipeline, number))
    if not names:
        return [f"{INDENT}    │"]
    text = "documents, " + ", ".join(map(printable, names))
    first, *more = wrap(text, max(NARROWEST, width - len(INDENT) - 7), break_on_hyphens=False)
    return [f"{INDENT}    │  {first}", *(f"{INDENT}    │  {line}" for line in more)]


def _list_values_in_use(plan: Plan, number: int) -> Iterator[str]:
    """The steps up to this phase whose values steps of later phases take; branches under one name."""
    given = _name_by_step(plan.phases[:number])
    taken = (
        name
        for phase in plan.phases[number:]
        for step in phase.steps
        for value in step.takes
        for name in value.steps
    )
    yield from dict.fromkeys(given[name] for name in taken if name in given)


def _name_by_step(phases: Sequence[PlanPhase]) -> Mapping[str, str]:
    return {
        step.name: step.name.removesuffix(f".{step.branch}") if step.branch else step.name
        for phase in phases
        for step in phase.steps
    }
