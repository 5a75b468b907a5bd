"""What a worker does for a job that an earlier process of the same name had when it died.

Promises: as of a janitor who judged it stale, who need not wait, since the worker knows; the attempt was
counted when it was claimed and stays counted, so that a file that kills its worker is given up at last. Pure:
see `asks`.
"""

from msgspec import structs

from quire.library.protocol import layout
from quire.library.protocol.bodies import JobRecord, decode, encode
from quire.library.protocol.janitor import SettleOutcome
from quire.library.protocol.lifecycle import JobActor, write_markers
from quire.library.protocol.requests import Operation, SwapObject, read

RESTART = "worker_restart"


def recover_after_restart(ident: str, attempt: int, started: int, terms: JobActor) -> Operation[SettleOutcome]:
    """`attempt` is the one that died, and began at `started`; a job that has gone on since is left alone."""
    found = yield from read(layout.state(ident))
    job = None if found is None else decode(found.body, JobRecord)
    if found is None or job is None or job.state != "running":
        return SettleOutcome.NOTHING
    if (job.worker, job.attempt, job.started) != (terms.worker, attempt, started):
        return SettleOutcome.NOTHING
    last = job.charged >= terms.limit
    moved = structs.replace(
        job,
        state="dead" if last else "waiting",
        nonce=terms.nonce(),
        updated=terms.millis,
        error=f"the worker {job.worker} ended without a word in attempt {attempt}",
    )
    written: str | None = yield SwapObject(layout.state(ident), encode(moved), found.version, "recover")
    if written is None:
        return SettleOutcome.LOST
    yield from write_markers(ident, moved, terms, recovered_from=RESTART)
    return SettleOutcome.BURIED if last else SettleOutcome.REQUEUED
