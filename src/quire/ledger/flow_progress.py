"""How far a batch that flows has come, told by its counters: the same for every ledger."""

from collections.abc import Sequence

from msgspec import Struct


class FlowCounters(Struct, kw_only=True):
    """`phases` are (number, name, open tasks) in order. `joins_at` is the first phase with a document all of
    whose branches have settled and whose effects were not applied yet. Without a manifest the files are
    brought by the process that runs a folder, not by a scheduler.
    """

    round: int
    phase: int
    sources: int
    open_tasks: int
    waits_at: int | None
    gathers: int
    has_manifest: bool
    phases: Sequence[tuple[int, str, int]]
    joins_at: int | None


class FlowProgress(Struct, frozen=True):
    """Where the batch stands now: `started` are the names of phases that it has reached since. `wants_move`:
    a scheduler has something to do. `ends`: nothing is left.
    """

    phase: int
    status: str
    wants_move: bool
    ends: bool
    started: tuple[str, ...]


def find_progress(counters: FlowCounters) -> FlowProgress:
    busy = counters.sources or counters.gathers
    ends = not counters.sources and not counters.open_tasks and counters.waits_at is None
    may_gather = (
        counters.waits_at is not None and not busy and not is_open_before(counters, counters.waits_at)
    )
    admits = counters.sources > 0 and counters.has_manifest
    wants = admits or counters.joins_at is not None or may_gather or ends
    reached = _reached_phase(counters, ends=ends)
    return FlowProgress(
        reached,
        next((name for number, name, _ in counters.phases if number == reached), ""),
        wants,
        ends,
        tuple(name for number, name, _ in counters.phases if counters.phase < number <= reached),
    )


def is_open_before(counters: FlowCounters, phase: int) -> bool:
    """Whether a task or a join of an earlier phase is not settled."""
    if any(left > 0 for number, _, left in counters.phases if number < phase):
        return True
    return counters.joins_at is not None and counters.joins_at < phase


def _reached_phase(counters: FlowCounters, *, ends: bool) -> int:
    """The first phase that has something to do, never one before the present one."""
    if counters.sources and not counters.gathers:
        return counters.phase
    if ends:
        return counters.phases[-1][0]
    busy = (
        number
        for number, _, left in counters.phases
        if number >= counters.phase and (left > 0 or number == counters.waits_at)
    )
    return next(busy, counters.phase)
