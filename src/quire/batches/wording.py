"""The state of a batch in one line, for people."""

from collections.abc import Sequence

from quire.model.batch import Batch, Hold, PhaseCounts, Stage

_BEFORE = {
    Stage.OPEN: "taking files in",
    Stage.QUEUED: "waiting to be started",
    Stage.FILLING: "reading its list of files",
}
_DOING = {
    Stage.GATHERING: "putting files together for",
    Stage.DISCOVERING: "finding the work of",
    Stage.TRANSFORMING: "folding in the results of",
}


def describe_state(batch: Batch, counts: Sequence[PhaseCounts], now: float) -> str:
    """`working in TIFF_CONVERSION: 3 of 12`, `paused: …`, `done, 2 failed` …"""
    return _describe_end(batch, counts) or _describe_hold(batch) or _describe_work(batch, counts, now)


def _describe_end(batch: Batch, counts: Sequence[PhaseCounts]) -> str:
    stage = batch.position.stage
    if stage is Stage.DONE:
        # Tasks that failed, and files that did not get as far as a task: neither may hide behind "done".
        failed = sum(one.failed for one in counts)
        words = ["done"] + ([f"{failed} failed"] if failed else [])
        return ", ".join(words + ([f"{batch.refused} refused"] if batch.refused else []))
    if batch.ended:
        return f"{stage.value}: {batch.error}" if batch.error else stage.value
    return ""


def _describe_hold(batch: Batch) -> str:
    if batch.hold is Hold.BUDGET:
        return "held: budget spent"
    if batch.hold is Hold.PAUSED:
        return f"paused: {batch.hold_reason}" if batch.hold_reason else "paused"
    return ""


def _describe_work(batch: Batch, counts: Sequence[PhaseCounts], now: float) -> str:
    stage = batch.position.stage
    if batch.phase_retries and batch.rests_until > now:
        return f"waiting to try {batch.status} again after {batch.phase_retries} failed tries"
    if stage is Stage.WORKING:
        current = find_current_counts(batch, counts)
        return f"working in {batch.status}: {current.settled} of {current.total}"
    return _BEFORE.get(stage) or f"{_DOING[stage]} {batch.status}"


def find_current_counts(batch: Batch, counts: Sequence[PhaseCounts]) -> PhaseCounts:
    """Those of the phase that it is in, or was in at its end; zeros before the first."""
    at = batch.position.phase
    nothing = PhaseCounts(phase=at, name="", total=0, done=0, failed=0, cached=0)
    return next((one for one in counts if one.phase == at), nothing)
