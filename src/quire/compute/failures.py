"""Failures of attempts, in the words of their reports."""

import traceback
from pathlib import Path

from msgspec import Struct

from quire.model.errors import QuireError, Reject, Retry
from quire.model.step import Step
from quire.model.work import Outcome, StepCall
from quire.queues.port import DAMAGED

MAX_ERROR_LENGTH = 2000
_NOT_ITS_FAULT = "the worker died before this result was stored, and this file was not the cause"
_QUIRE = Path(__file__).parent.parent


class AttemptFailure(Struct, frozen=True):
    outcome: Outcome
    error_class: str
    error: str
    delay_seconds: float = 0.0


def of_error(error: BaseException, call: StepCall) -> AttemptFailure:
    if isinstance(error, MemoryError):
        text = (
            f"the step {call.step} needed more than its memory limit of {call.memory_mb} MB; raise "
            "preprocess.memory_mb (in a pipeline of your own memory_mb of the phase), and local.memory_mb or "
            "the memory of the machine where that is less"
        )
        return AttemptFailure(Outcome.OUT_OF_MEMORY, "out_of_memory", text)
    text = _message(error) or type(error).__name__
    if isinstance(error, Reject):
        return AttemptFailure(Outcome.REJECTED, error.code, text)
    if isinstance(error, Retry):
        return AttemptFailure(Outcome.ERRED, error.code, text, error.delay_seconds or 0.0)
    if isinstance(error, QuireError):
        return AttemptFailure(Outcome.ERRED, error.code, text)
    return AttemptFailure(Outcome.ERRED, "step_error", f"{type(error).__name__}: {text}{_tell_place(error)}")


def _tell_place(error: BaseException) -> str:
    """The line of the step: where a call of Quire's has failed, the line that made the call."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not Path(one.filename).is_relative_to(_QUIRE)]
    for one in (own or frames)[-1:]:
        return f" ({Path(one.filename).name}:{one.lineno})"
    return ""


def of_store(error: BaseException, call: StepCall) -> AttemptFailure:
    """Bytes could not be fetched or stored. A passing fault of the store does not count against the file."""
    failure = of_error(error, call)
    if isinstance(error, Retry):
        return AttemptFailure(Outcome.INTERRUPTED, failure.error_class, failure.error, failure.delay_seconds)
    return failure


def of_unknown_step(call: StepCall, known: Step | None = None) -> AttemptFailure:
    """`known` is what the worker has under this name, in another version or of another kind."""
    has = ""
    if known is not None:
        kind = "a plain function" if known.run_async is None else "a coroutine"
        has = f" (it has version {known.version}, {kind})"
    text = (
        f"this worker has no step {call.step} in version {call.version}{has}; add the module of its pipeline "
        "to the setting `pipelines` where the worker runs, in the version that the batch was started with"
    )
    return AttemptFailure(Outcome.ERRED, "unknown_step", text)


def of_sandbox(error: PermissionError, call: StepCall) -> AttemptFailure:
    """Something in the step was refused by the sandbox: it will be refused the next time, too."""
    text = (
        f"the step {call.step} tried what its sandbox forbids: {_message(error)}{_tell_place(error)}. Either "
        "the file makes its decoder do what no decoder should, or the step needs more than a decoder may have"
    )
    return AttemptFailure(Outcome.REJECTED, "sandbox_violation", text)


def of_timeout(call: StepCall, seconds: float) -> AttemptFailure:
    text = f"the step {call.step} gave no result within {seconds:g} s and was stopped"
    return AttemptFailure(Outcome.TIMED_OUT, "timeout", text)


def of_stall(call: StepCall, done: int, total: int) -> AttemptFailure:
    heard = f" after {done} of {total}" if total else ""
    limit = f"{call.stall_seconds:g} s"
    text = f"the step {call.step} stalled: it showed no progress{heard} for {limit} and was stopped"
    return AttemptFailure(Outcome.TIMED_OUT, "stalled", text)


def of_bad_result(error: BaseException, call: StepCall) -> AttemptFailure:
    """The output of the step, or its error, cannot be encoded for the pool."""
    text = f"the step {call.step} returned a result that cannot be encoded: {_message(error)}"
    return AttemptFailure(Outcome.REJECTED, "bad_result", text)


def of_crash(call: StepCall, ending: str, stderr: str) -> AttemptFailure:
    said = f"; its last output: {stderr[-300:]}" if stderr else ""
    return AttemptFailure(
        Outcome.CRASHED, "crash", f"the worker process died in step {call.step} ({ending}){said}"
    )


def of_silent_machine(call: StepCall, ending: str) -> AttemptFailure:
    text = f"the machine of step {call.step} ended without a callback ({ending})"
    return AttemptFailure(Outcome.CRASHED, "crash", text[:MAX_ERROR_LENGTH])


def of_failed_launch(error: BaseException, again_seconds: float) -> AttemptFailure:
    """No machine was started. A passing fault does not count against the file; one that a person must correct
    uses up its attempts.
    """
    text = f"no machine could be started: {_message(error)}"[:MAX_ERROR_LENGTH]
    if isinstance(error, Retry):
        return AttemptFailure(Outcome.INTERRUPTED, "not_launched", text, error.delay_seconds or again_seconds)
    return AttemptFailure(Outcome.ERRED, "not_launched", text)


def of_no_report(queue: str) -> AttemptFailure:
    """No worker took the task, or its worker never reported. Does not count against the file."""
    text = (
        f"no worker reported this task in time; do workers run (`quire worker --from-queue`), and are there "
        f"dead letters in the queue {queue}?"
    )
    return AttemptFailure(Outcome.INTERRUPTED, "no_report", text)


def of_dead_letter(error_class: str, reason: str) -> AttemptFailure:
    """A worker could not read the message, or gave up on it. One that was damaged is sent anew."""
    if error_class == DAMAGED:
        text = f"the message of this task was damaged in the queue: {reason}"[:MAX_ERROR_LENGTH]
        return AttemptFailure(Outcome.INTERRUPTED, error_class, text)
    text = f"a worker gave up on the message of this task: {reason}"[:MAX_ERROR_LENGTH]
    return AttemptFailure(Outcome.ERRED, error_class, text)


def of_late_start(queue: str) -> AttemptFailure:
    text = f"this task waited in the queue {queue} for longer than compute.wait_seconds; start more workers"
    return AttemptFailure(Outcome.INTERRUPTED, "late_start", text)


def of_deliveries(call: StepCall, times: int) -> AttemptFailure:
    """Each time the worker of the task died, perhaps because of it."""
    text = (
        f"the step {call.step} was started {times} times, and each time its worker died or lost its "
        "lease without reporting"
    )
    return AttemptFailure(Outcome.CRASHED, "too_many_deliveries", text)


def of_interruption() -> AttemptFailure:
    return AttemptFailure(Outcome.INTERRUPTED, "interrupted", _NOT_ITS_FAULT)


def of_cancellation() -> AttemptFailure:
    """A coroutine has ended because the pool asked it to; the pool knows why and says it instead."""
    return of_interruption()


def _message(error: BaseException) -> str:
    """The message of the error. File names may hold halves of characters, which no pipe or table accepts."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - the name of an error without a message is enough
        said = ""
    return said[:MAX_ERROR_LENGTH].encode("utf-8", "replace").decode("utf-8")
