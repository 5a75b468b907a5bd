"""What a step raised, as it will stand in its report."""

import traceback
from pathlib import Path

from msgspec import Struct

from quire.model.errors import QuireError, Reject, Retry
from quire.model.work import Outcome, StepCall

MAX_ERROR_LENGTH = 2000
_NOT_ITS_FAULT = "the worker died before this result was stored, and not through this file"


class Failure(Struct, frozen=True):
    outcome: Outcome
    error_class: str
    error: str
    delay_seconds: float = 0.0


def of_error(error: BaseException, call: StepCall) -> Failure:
    if isinstance(error, MemoryError):
        text = (
            f"the step {call.step} needed more than its memory limit of {call.memory_mb} MB; raise "
            "preprocess.memory_mb (in a pipeline of your own memory_mb of the phase), and local.memory_mb or "
            "the memory of the machine where that is less"
        )
        return Failure(Outcome.OUT_OF_MEMORY, "out_of_memory", text)
    text = _words(error) or type(error).__name__
    if isinstance(error, Reject):
        return Failure(Outcome.REJECTED, error.code, text)
    if isinstance(error, Retry):
        return Failure(Outcome.ERRED, error.code, text, error.delay_seconds or 0.0)
    if isinstance(error, QuireError):
        return Failure(Outcome.ERRED, error.code, text)
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({Path(where[0].filename).name}:{where[0].lineno})" if where else ""
    return Failure(Outcome.ERRED, "step_error", f"{type(error).__name__}: {text}{place}")


def of_store(error: BaseException, call: StepCall) -> Failure:
    """Bytes could not be fetched or kept. A passing fault of the store is not the file's."""
    failure = of_error(error, call)
    if isinstance(error, Retry):
        return Failure(Outcome.INTERRUPTED, failure.error_class, failure.error, failure.delay_seconds)
    return failure


def of_unknown_step(call: StepCall) -> Failure:
    text = (
        f"this worker has no step {call.step} in version {call.version}; install the package that brings it"
    )
    return Failure(Outcome.ERRED, "unknown_step", text)


def of_timeout(call: StepCall) -> Failure:
    text = f"the step {call.step} gave no result within {call.timeout_seconds:g} s and was stopped"
    return Failure(Outcome.TIMED_OUT, "timeout", text)


def of_stall(call: StepCall, done: int, total: int) -> Failure:
    heard = f" after {done} of {total}" if total else ""
    limit = f"{call.stall_seconds:g} s"
    text = f"the step {call.step} stalled: it showed no progress{heard} for {limit} and was stopped"
    return Failure(Outcome.TIMED_OUT, "stalled", text)


def of_unreadable(error: BaseException, call: StepCall) -> Failure:
    """What the step gave back, or how it failed, cannot be told to the pool."""
    text = f"the step {call.step} gave back what cannot be told: {_words(error)}"
    return Failure(Outcome.REJECTED, "bad_result", text)


def of_crash(call: StepCall, ending: str, last_words: str) -> Failure:
    said = f"; its last words: {last_words[-300:]}" if last_words else ""
    return Failure(Outcome.CRASHED, "crash", f"the worker process died in step {call.step} ({ending}){said}")


def of_silence(call: StepCall, ending: str) -> Failure:
    text = f"the machine of step {call.step} ended without a word ({ending})"
    return Failure(Outcome.CRASHED, "crash", text[:MAX_ERROR_LENGTH])


def of_launch(error: BaseException, again_seconds: float) -> Failure:
    """No machine came about. A passing fault is not the file's; what a person must mend ends it in time."""
    text = f"no machine could be started: {_words(error)}"[:MAX_ERROR_LENGTH]
    if isinstance(error, Retry):
        return Failure(Outcome.INTERRUPTED, "not_launched", text, error.delay_seconds or again_seconds)
    return Failure(Outcome.ERRED, "not_launched", text)


def of_no_report(queue: str) -> Failure:
    """Nobody took it, or whoever did was never heard of. Not the file's fault."""
    text = (
        f"no worker reported this task in time; do workers run (`quire worker --from-queue`), and are there "
        f"dead letters in the queue {queue}?"
    )
    return Failure(Outcome.INTERRUPTED, "no_report", text)


def of_dead_letter(error_class: str, reason: str) -> Failure:
    """Whoever took it could not read it, or gave it up."""
    text = f"a worker gave the message of this task up: {reason}"[:MAX_ERROR_LENGTH]
    return Failure(Outcome.ERRED, error_class, text)


def of_late_start(queue: str) -> Failure:
    text = f"this task waited in the queue {queue} for longer than compute.wait_seconds; start more workers"
    return Failure(Outcome.INTERRUPTED, "late_start", text)


def of_deliveries(call: StepCall, times: int) -> Failure:
    """Each time whoever had it died, perhaps through it."""
    text = (
        f"the step {call.step} was begun {times} times, and each time its worker died or lost its lease "
        "without a word"
    )
    return Failure(Outcome.CRASHED, "too_many_deliveries", text)


def of_interruption() -> Failure:
    return Failure(Outcome.INTERRUPTED, "interrupted", _NOT_ITS_FAULT)


def _words(error: BaseException) -> str:
    """The message, however odd. File names may hold halves of characters, which no pipe or table takes."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot speak is told by its name
        said = ""
    return said[:MAX_ERROR_LENGTH].encode("utf-8", "replace").decode("utf-8")
