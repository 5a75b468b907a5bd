"""A worker process: takes chunks of orders from its pipe, runs the steps, sends reports.

The main thread only runs steps; a second thread stores products and sends their reports, so that the disk
works while the processor does. The result is in storage before the report is sent. A third thread reads the
pipe, gives back orders that have not started when the pool recalls them, and ends the process when the pool
is gone. A step that would need more memory than its limit is not started. Steps that decode strangers' files
run in a process beside this one (`decoder`), whose sandbox leaves them neither the store nor the pipe.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from traceback import print_exception

from msgspec import Struct

from quire.blobs.port import Blobs
from quire.compute import failures
from quire.compute.decoder.handle import Computed, Decoder, DecoderSetup, DecodingError
from quire.compute.failures import AttemptFailure
from quire.compute.pool import frames, memory, products
from quire.compute.pool.chunks import STORING_AT_ONCE
from quire.compute.pool.meter import MeterChannel, OrderMeter
from quire.compute.pool.order_run import OrderRun, WorkerStorage
from quire.compute.pool.pipe import FrameReader, FrameWriter
from quire.compute.pool.report_frames import encode_report
from quire.compute.pool.results import check_output
from quire.compute.pool.values import encode_value
from quire.model.clock import Clock
from quire.model.errors import Misconfigured, QuireError
from quire.model.step import AsyncStepFunction, Step, StepInput, StepOutput, find_step
from quire.model.work import ExternalRequest, Order, StepCall, StepResult
from quire.tools.child_process import die_with_parent

THREAD_STACK_BYTES = 2 << 20


class WorkerContext(Struct, frozen=True, kw_only=True):
    """The components of a worker; built in its own process from its configuration."""

    blobs: Blobs
    steps: Mapping[str, Step]
    scratch: Path
    clock: Clock
    decoding: DecoderSetup | None = None  # None: no step runs in a sandbox
    name: str = "local"  # reports name the worker by this and the number of its process


def serve(build: Callable[[bytes], WorkerContext]) -> None:
    """Run a worker on the standard input and output of this process, to its end; a host of many coroutines
    when the first frame asks for one.
    """
    die_with_parent()
    # The stacks of threads count as data, and the limit of a worker's memory is for pictures.
    threading.stack_size(THREAD_STACK_BYTES)
    # The pool stops this process through the pipe, not by a signal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reader, writer = FrameReader(os.dup(0)), FrameWriter(os.dup(1))
    os.dup2(2, 1)  # output of libraries must not get between the frames
    kind, configuration = reader.get()
    if kind == frames.HOST:
        from quire.compute.hosts.host import AsyncHost  # here: plain workers do without it

        AsyncHost(build(configuration), reader, writer).run()
    elif kind == frames.HELLO:
        worker = StepWorker(build(configuration), reader, writer)
        writer.send(frames.encode_frame(frames.READY, frames.Ready(os.getpid())))
        worker.run()
    else:
        raise Misconfigured("the first frame of a worker must be HELLO or HOST")
    os._exit(0)  # threads of libraries must not delay the end


class StepWorker:
    def __init__(self, context: WorkerContext, reader: FrameReader, writer: FrameWriter) -> None:
        self._context = context
        self._reader = reader
        self._writer = writer
        self._name = f"{context.name}-{os.getpid()}"
        self._storing = threading.Semaphore(STORING_AT_ONCE)
        self._is_retiring = False
        self._chunks = 0
        self._recalled = 0  # no order of the chunks up to this one is started
        self._turn = threading.Lock()  # guards what starts next and what is step_input back
        reader.on_recall = self._give_back
        self._storage = WorkerStorage(context.blobs, context.scratch)
        self._meters = MeterChannel(writer, context.clock)
        self._decoder = None if context.decoding is None else Decoder(context.decoding, context.scratch)

    def run(self) -> None:
        while not self._is_retiring:
            kind, payload = self._reader.get()
            if kind == frames.STOP:
                break
            self._run_chunk(frames.chunk_decoder.decode(payload))
        for _ in range(STORING_AT_ONCE):  # until everything is stored and reported
            self._storing.acquire()
        self._writer.send()
        if self._decoder is not None:
            self._decoder.close()

    def _run_chunk(self, chunk: frames.Chunk) -> None:
        self._chunks += 1
        memory.limit(chunk.call.memory_mb)
        step = find_step(self._context.steps, chunk.call.step, chunk.call.version)
        revoked = self._reader.revoked
        for order in chunk.orders:
            if self._is_retiring or self._reader.stopping.is_set():
                break  # orders that were not started go back to the pool
            with self._turn:
                if self._recalled >= self._chunks:
                    break  # the pool has it back
                if revoked and revoked.get(order.batch_no, 0) >= self._chunks:
                    self._writer.add(frames.SKIPPED_FRAME)
                    continue
                self._writer.send(frames.STARTED_FRAME)
            self._run_order(step, chunk.call, order, chunk.granted_mb)
        self._writer.send()

    def _give_back(self, chunks: int) -> None:
        with self._turn:
            self._recalled = chunks
            self._writer.send(frames.RECALLED_FRAME)

    def _run_order(self, step: Step | None, call: StepCall, order: Order, granted_mb: int) -> None:
        clock = self._context.clock
        began = clock.monotonic()
        run = OrderRun(call, order, (clock.now(), began), OrderMeter(self._meters, began), self._storage)
        if step is None:
            self._report(run, failures.of_unknown_step(call, self._context.steps.get(call.step)))
            return
        try:
            decoder = self._choose_decoder(run, step)
            bare = not run.needs_store(step)
            step_input = run.build_bare_input() if bare else run.build_input(step)
        except Exception as error:  # noqa: BLE001 - any error of a store becomes the report
            self._fail(run, failures.of_store(error, call))
            return
        self._run_step(run, step, step_input, granted_mb, decoder)

    def _choose_decoder(self, run: OrderRun, step: Step) -> Decoder | None:
        """The decoder, when the step is to run in a sandbox. Raises Misconfigured when it cannot."""
        if step.sandbox is None or self._decoder is None:
            return None
        place = self._decoder.prepare(step, run.call)
        if place is None:
            return None
        run.confine(place)
        return self._decoder

    def _run_step(
        self, run: OrderRun, step: Step, step_input: StepInput, granted_mb: int, decoder: Decoder | None
    ) -> None:
        try:
            if decoder is None:
                computed = self._compute(run, step, step_input, granted_mb)
            else:
                computed = decoder.compute(run, step_input, granted_mb, self._ask_for_memory, self._writer)
        except DecodingError as error:
            self._is_retiring = self._is_retiring or error.is_full
            known = run.store_error if error.is_store_error else None
            self._fail(run, error.failure if known is None else failures.of_store(known, run.call))
            return
        except BaseException as error:  # noqa: BLE001 - any error of a step becomes its report
            # A fresh process has all of its memory again.
            self._is_retiring = self._is_retiring or isinstance(error, MemoryError)
            if not isinstance(error, MemoryError | QuireError):
                print_exception(error)  # to the standard error, for logs
            explain = failures.of_store if error is run.store_error else failures.of_error
            self._fail(run, explain(error, run.call))
            return
        run.meter.close()
        if computed is None:
            run.discard()
            return
        self._deliver(run, computed)

    def _compute(self, run: OrderRun, step: Step, step_input: StepInput, granted_mb: int) -> Computed | None:
        """Run the step in this process; None when it has to wait for memory. Raises what the step raises."""
        need_mb = memory.estimate_mb(step, step_input, run.call)
        if need_mb > granted_mb and not self._ask_for_memory(need_mb):
            return None
        output = check_output(call_step(step, step_input), run)
        value = encode_value(output.value, run.call)
        if need_mb > granted_mb or need_mb > memory.LARGE_MB:
            memory.trim()
        return Computed(output, value)

    def _deliver(self, run: OrderRun, computed: Computed) -> None:
        output, value = computed
        if products.needs_store(output, value):
            # From here on the store works: its slowness does not count as the step's.
            self._writer.send(frames.COMPUTED_FRAME)
            self._storing.acquire()
            self._storage.background(self._store(run, output, value))
        else:
            run.discard()
            self._report(run, products.build_result(output, value), output.external)

    def _ask_for_memory(self, need_mb: int) -> bool:
        self._writer.send(frames.encode_frame(frames.NEEDS_MEMORY, frames.MemoryRequest(need_mb)))
        return self._reader.answer() == frames.GO

    def _fail(self, run: OrderRun, failure: AttemptFailure) -> None:
        run.meter.close()
        run.discard()
        self._report(run, failure)

    async def _store(self, run: OrderRun, output: StepOutput, value: bytes) -> None:
        """Store the products, then send the report."""
        result: StepResult | AttemptFailure
        try:
            result = await products.store_output(self._context.blobs, run.order.file, output, value)
            run.meter.bytes_out = products.count_bytes(result)
        except Exception as error:  # noqa: BLE001 - any error of a store becomes the report
            result = failures.of_store(error, run.call)
        run.discard()
        self._report(run, result, output.external)
        self._writer.send()
        self._storing.release()

    def _report(
        self, run: OrderRun, result: StepResult | AttemptFailure, request: ExternalRequest | None = None
    ) -> None:
        seconds = self._context.clock.monotonic() - run.began
        self._writer.add(encode_report(run, seconds, self._name, result, request))


def call_step(step: Step, step_input: StepInput) -> StepOutput:
    """A coroutine that was not sent to a host for many of them has a loop to itself."""
    if step.run_async is None:
        return step.run(step_input)

    async def call(run: AsyncStepFunction) -> StepOutput:
        return await run(step_input)

    return asyncio.run(call(step.run_async))
