"""The decoder of a worker, as the worker sees it: started for the first order that needs it, one at a time.

Promises: what a decoder asks for is given only when it is part of its order, and what it returns is checked
as if a stranger had sent it; when it dies, this process ends the same way, so that the pool sees what it
would have seen without a decoder. Must not know: the sandbox itself, the pool.
"""

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple, NoReturn, Protocol

import msgspec
from msgspec import Struct, structs

from quire.compute import failures
from quire.compute.decoder import messages
from quire.compute.failures import AttemptFailure
from quire.compute.pool import frames
from quire.compute.pool.meter import FrameSink, OrderMeter
from quire.compute.pool.order_run import SandboxPlace
from quire.compute.pool.results import check_output
from quire.model.errors import Bug, Misconfigured
from quire.model.files import File
from quire.model.step import Step, StepInput, StepOutput
from quire.model.work import MAX_VALUE_BYTES, Order, Outcome, StepCall, Value

STOP_SECONDS = 5.0
_ENDINGS = frozenset({Outcome.REJECTED, Outcome.ERRED, Outcome.OUT_OF_MEMORY})


class DecoderSetup(Struct, frozen=True, kw_only=True):
    """How decoders are started. `configure` builds the configuration of one from its places and from what
    else its steps read. `is_strict`: a step that cannot run in the sandbox does not run at all.
    """

    command: Sequence[str]
    environment: Callable[[str], Mapping[str, str]]
    configure: Callable[[SandboxPlace, tuple[str, ...]], bytes]
    is_strict: bool = False


class Computed(NamedTuple):
    """What a step gave, and its value, encoded."""

    output: StepOutput
    value: bytes


class DecodingError(Exception):
    """A step failed in the decoder."""

    def __init__(self, failed: messages.StepFailed) -> None:
        super().__init__(failed.failure.error)
        self.failure: AttemptFailure = failed.failure
        self.is_store_error = failed.is_store_error
        self.is_full = failed.is_full


class ConfinedRun(Protocol):
    """The run of an order whose step is in the sandbox."""

    call: StepCall
    order: Order
    folder: Path
    meter: OrderMeter

    def is_input_file(self, path: Path) -> bool: ...
    def fetch(self, file: File) -> Path: ...
    def resolve(self, value: Value) -> Any: ...


class Decoder:
    def __init__(self, setup: DecoderSetup, scratch: Path) -> None:
        self._setup = setup
        self._scratch = scratch
        self._roots: list[Path] = []
        self._place: SandboxPlace | None = None
        self._running: _Running | None = None

    def prepare(self, step: Step, call: StepCall) -> SandboxPlace | None:
        """Start a decoder that may read what this step reads, unless one runs. None: the step cannot run in a
        sandbox, and is allowed to run without. Raises Misconfigured.
        """
        places = None if step.sandbox is None else step.sandbox(call.options)
        if places is None:
            if self._setup.is_strict:
                raise Misconfigured(
                    f"the step {call.step} starts programs of its own with these options, and the sandbox "
                    "forbids that; choose another converter, or set sandbox to auto"
                )
            return None
        if self._running is None or not set(places) <= self._running.places:
            self._start(places)
        return self._place

    def compute(
        self,
        run: ConfinedRun,
        step_input: StepInput,
        granted_mb: int,
        ask_for_memory: Callable[[int], bool],
        sink: FrameSink,
    ) -> Computed | None:
        """Have the step run; None when it has to wait for memory. Raises DecodingError, or Reject for an
        output that no step may return. `sink` is told of progress.
        """
        decoder = self._running
        if decoder is None:
            raise DecodingError(messages.StepFailed(failures.of_interruption()))
        given = messages.DecoderOrder(
            run.call,
            run.order,
            str(step_input.source),
            str(step_input.folder),
            granted_mb,
            step_input.members,
            step_input.values,
        )
        answers = _Answers(run, step_input)
        try:
            decoder.send(messages.encode(frames.CHUNK, given))
            while True:
                kind, content = decoder.receive()
                if kind == messages.DONE:
                    return _read_done(content, run)
                if kind == messages.FAILED:
                    raise _read_failed(content, run)
                if kind == frames.NEEDS_MEMORY:
                    wanted = frames.memory_request_decoder.decode(content).megabytes
                    may_go = ask_for_memory(min(wanted, run.call.memory_mb))
                    decoder.send(frames.encode_frame(frames.GO if may_go else frames.WAIT))
                    if not may_go:
                        return None
                elif kind == frames.PROGRESS:
                    sink.send(frames.encode_frame(kind, frames.progress_decoder.decode(content)))
                elif kind == frames.SPENT:
                    run.meter.take(frames.cost_decoder.decode(content))
                else:
                    decoder.send(answers.answer(kind, content))
        except (EOFError, BrokenPipeError):
            _end_like(decoder.wait())

    def close(self) -> None:
        """End the decoder and remove its folders. May be repeated."""
        self._stop()
        for root in self._roots:
            shutil.rmtree(root, ignore_errors=True)

    def _start(self, places: tuple[str, ...]) -> None:
        known = set(places) | (self._running.places if self._running is not None else set())
        self._stop()
        place = self._place = self._make_place()
        configuration = self._setup.configure(place, tuple(sorted(known)))
        self._running = _Running(
            subprocess.Popen(
                self._setup.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # What a decoder writes must not become a module of the next one.
                cwd=place.inputs,
                env=dict(self._setup.environment(str(place.outputs))),
            ),
            known,
        )
        try:
            self._running.send(frames.encode_hello(frames.HELLO, configuration))
            self._running.receive()
        except (EOFError, BrokenPipeError) as error:
            self._stop()
            raise Misconfigured(
                "the process for decoding in the sandbox did not start, its reason is in the log; set "
                "sandbox to off if this machine cannot have one"
            ) from error

    def _make_place(self) -> SandboxPlace:
        """Folders that no other decoder has written to. Results of the last one may still be being stored."""
        root = Path(mkdtemp(prefix="decoder-", dir=self._scratch)).resolve()
        self._roots.append(root)
        place = SandboxPlace(root / "inputs", root / "outputs")
        for folder in place:
            folder.mkdir(mode=0o700)
        return place

    def _stop(self) -> None:
        if self._running is not None:
            self._running.stop()
            self._running = None


class _Running:
    """A started decoder and what it may read beside its inputs."""

    def __init__(self, process: "subprocess.Popen[bytes]", places: set[str]) -> None:
        self.places = places
        self._process = process
        if process.stdin is None or process.stdout is None:
            raise Bug("a decoder was started without pipes")
        self._outgoing = process.stdin
        self._source = messages.FrameSource(os.dup(process.stdout.fileno()))
        process.stdout.close()

    def send(self, data: bytes) -> None:
        self._outgoing.write(data)
        self._outgoing.flush()

    def receive(self) -> tuple[bytes, bytes]:
        return self._source.get()

    def wait(self) -> int:
        return self._process.wait()

    def stop(self) -> None:
        with suppress(OSError):
            self._outgoing.close()
        self._process.kill()
        self._process.wait(STOP_SECONDS)


class _Answers:
    """What a decoder may ask for while it runs one order: the files and values of its input, by names."""

    def __init__(self, run: ConfinedRun, step_input: StepInput) -> None:
        self._run = run
        results = [one.result for one in run.order.earlier]
        values = [*run.order.values.values(), *(one.value for one in results if one.value is not None)]
        values += [value for member in step_input.members for value in member.values.values()]
        self._files: dict[str, File] = {one.key: one for one in (run.order.file, *step_input.members)}
        self._values = {value.digest: value for value in values if value.digest}

    def answer(self, kind: bytes, content: bytes) -> bytes:
        try:
            name = messages.name_decoder.decode(content)
            if kind == messages.FETCH and name in self._files:
                return messages.encode(messages.GIVEN, str(self._run.fetch(self._files[name])))
            if kind == messages.RESOLVE and name in self._values:
                return messages.encode(messages.GIVEN, self._run.resolve(self._values[name]))
        except Exception as error:  # noqa: BLE001 - the run keeps it and reports it
            return messages.encode(messages.REFUSED, str(error).encode("utf-8", "replace").decode())
        return messages.encode(messages.REFUSED, "this is no part of the step's input")


def _read_done(content: bytes, run: ConfinedRun) -> Computed:
    try:
        done = messages.done_decoder.decode(content)
        _check_value(done.value)
    except Exception as error:
        raise DecodingError(messages.StepFailed(failures.of_bad_result(error, run.call))) from error
    return Computed(check_output(structs.replace(done.output, value=None), run), done.value)


def _check_value(encoded: bytes) -> None:
    if len(encoded) > MAX_VALUE_BYTES:
        raise ValueError(f"a value of {len(encoded)} bytes")
    if encoded:
        msgspec.json.decode(encoded)


def _read_failed(content: bytes, run: ConfinedRun) -> DecodingError:
    """Only what counts as a try of the file: whatever took over a decoder must not have it begin for ever."""
    try:
        failed = messages.failed_decoder.decode(content)
    except (msgspec.MsgspecError, ValueError) as error:
        failed = messages.StepFailed(failures.of_bad_result(error, run.call))
    if failed.failure.outcome not in _ENDINGS:
        odd = ValueError(f"an ending {failed.failure.outcome}")
        failed = messages.StepFailed(failures.of_bad_result(odd, run.call))
    text = failed.failure.error[: failures.MAX_ERROR_LENGTH]
    return DecodingError(structs.replace(failed, failure=structs.replace(failed.failure, error=text)))


def _end_like(code: int) -> NoReturn:
    """End this process as the decoder has ended: the pool blames the order, and says how."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the decoder's is the one to look at
        with suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code or 1)
