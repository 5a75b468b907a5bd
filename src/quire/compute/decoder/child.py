"""A decoder: enters the sandbox, then runs the steps that its worker sends, one at a time.

Promises: not a byte of an input is read before the sandbox is entered; it ends with its worker. Must not
know: the store, the pool, any key. A step that meets the sandbox's limits fails as `sandbox_violation`.
"""

import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from traceback import print_exception
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from quire.compute import failures
from quire.compute.decoder import messages
from quire.compute.pool import frames, memory
from quire.compute.pool.meter import MeterChannel, OrderMeter
from quire.compute.pool.pipe import FrameWriter
from quire.compute.pool.results import check_output
from quire.compute.pool.values import encode_value
from quire.model.clock import Clock
from quire.model.errors import Bug, QuireError, Retry
from quire.model.files import File
from quire.model.step import Step, StepInput, find_step
from quire.model.work import StepCall, Value
from quire.tools import sandbox
from quire.tools.child_process import die_with_parent
from quire.tools.sandbox import SandboxRules

THREAD_STACK_BYTES = 2 << 20  # as in workers


class DecoderContext(Struct, frozen=True, kw_only=True):
    """The components of a decoder; built in its own process, before it enters the sandbox."""

    steps: Mapping[str, Step]
    rules: SandboxRules
    clock: Clock


def serve(build: Callable[[bytes], DecoderContext]) -> NoReturn:
    """Run a decoder on the standard input and output of this process, until its worker is gone."""
    die_with_parent()
    threading.stack_size(THREAD_STACK_BYTES)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, writer = messages.FrameSource(os.dup(0)), FrameWriter(os.dup(1))
    os.dup2(2, 1)  # output of libraries must not get between the frames
    try:
        _, configuration = source.get()
        context = build(configuration)
        sandbox.enter(context.rules)
        writer.send(frames.encode_frame(frames.READY, frames.Ready(os.getpid())))
        decoder = StepDecoder(context, source, writer)
        while True:
            decoder.run(messages.order_decoder.decode(source.get()[1]))
    except EOFError:
        os._exit(0)


class StepDecoder:
    def __init__(self, context: DecoderContext, source: messages.FrameSource, writer: FrameWriter) -> None:
        self._context = context
        self._source = source
        self._writer = writer
        self._channel = MeterChannel(writer, context.clock)
        self._asking = threading.Lock()
        self._store_error: QuireError | None = None

    def run(self, given: messages.DecoderOrder) -> None:
        """Run one order to its DONE or FAILED."""
        memory.limit(given.call.memory_mb)
        self._store_error = None
        meter = OrderMeter(self._channel, self._context.clock.monotonic())
        step_input = StepInput(
            file=given.order.file,
            source=Path(given.source),
            folder=Path(given.folder),
            options=given.call.options,
            members=given.members,
            earlier=given.order.earlier,
            values=given.values,
            fetch=self._fetch,
            resolve=self._resolve,
            meter=meter,
            task=given.order.task,
        )
        try:
            ending = self._compute(given, step_input)
        except BaseException as error:  # noqa: BLE001 - any error of a step becomes its report
            if not isinstance(error, MemoryError | QuireError):
                print_exception(error)  # to the standard error, for logs
            ending = self._explain(error, given.call)
        meter.close()  # a thread that the step left behind must not speak for the next order
        if ending:
            self._writer.send(ending)

    def _compute(self, given: messages.DecoderOrder, step_input: StepInput) -> bytes:
        call = given.call
        step = find_step(self._context.steps, call.step, call.version)
        if step is None:
            raise Bug(f"the decoder has no step {call.step} in version {call.version}")
        need_mb = memory.estimate_mb(step, step_input, call)
        if need_mb > given.granted_mb and not self._ask_for_memory(need_mb):
            return b""
        output = check_output(step.run(step_input), DecoderRun(call, step_input.folder))
        value = encode_value(output.value, call)
        if need_mb > memory.LARGE_MB:
            memory.trim()
        # The value travels in its own bytes.
        done = messages.StepDone(msgspec.structs.replace(output, value=None), value)
        try:
            framed = messages.encode(messages.DONE, done)
            messages.done_decoder.decode(framed[frames.HEAD_BYTES :])
        except Exception as error:  # noqa: BLE001 - any error becomes the report
            return _frame(messages.StepFailed(failures.of_bad_result(error, call)))
        return framed

    def _explain(self, error: BaseException, call: StepCall) -> bytes:
        if isinstance(error, PermissionError):
            return _frame(messages.StepFailed(failures.of_sandbox(error, call)))
        return _frame(
            messages.StepFailed(
                failures.of_error(error, call),
                is_store_error=error is self._store_error,
                is_full=isinstance(error, MemoryError),
            )
        )

    def _ask_for_memory(self, need_mb: int) -> bool:
        self._writer.send(frames.encode_frame(frames.NEEDS_MEMORY, frames.MemoryRequest(need_mb)))
        return self._source.get()[0] == frames.GO

    def _fetch(self, file: File) -> Path:
        return Path(self._ask(messages.FETCH, file.key))

    def _resolve(self, value: Value) -> Any:
        return self._ask(messages.RESOLVE, value.digest) if value.digest else value.data

    def _ask(self, kind: bytes, name: str) -> Any:
        with self._asking:  # steps ask from many threads
            self._writer.send(messages.encode(kind, name))
            answer, content = self._source.get()
            if answer == messages.GIVEN:
                return msgspec.msgpack.decode(content)
            self._store_error = Retry(str(msgspec.msgpack.decode(content)))
            raise self._store_error


class DecoderRun:
    """What the check of an output asks. The worker checks again, and knows which files are inputs."""

    def __init__(self, call: StepCall, folder: Path) -> None:
        self.call = call
        self.folder = folder

    def is_input_file(self, path: Path) -> bool:  # noqa: ARG002 - inputs lie outside of the folder
        return False


def _frame(failed: messages.StepFailed) -> bytes:
    return messages.encode(messages.FAILED, failed)
