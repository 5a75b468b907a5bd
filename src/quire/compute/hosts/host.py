"""A host process: runs the coroutines of many orders at once on one loop.

The loop only runs steps. A second thread, with a loop of its own, fetches inputs and stores products, so that
neither waits for the other; a third reads the pipe and ends the process when the pool is gone; a fourth
watches the loop. The result is in storage before the report is sent. The pool decides how many orders run,
and what a cancelled one failed of.
"""

import asyncio
import os
import sys
import traceback
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from quire.compute import failures
from quire.compute.failures import AttemptFailure
from quire.compute.hosts.loop_watch import LoopWatch
from quire.compute.pool import frames, memory, products
from quire.compute.pool.meter import MeterChannel, OrderMeter
from quire.compute.pool.order_run import OrderRun, WorkerStorage
from quire.compute.pool.pipe import FrameReader, FrameWriter
from quire.compute.pool.report_frames import encode_report
from quire.compute.pool.results import check_output
from quire.compute.pool.values import encode_value
from quire.compute.pool.worker import WorkerContext
from quire.model.step import AsyncStepFunction, Step, StepInput, StepOutput, find_step
from quire.model.work import AttemptKey, ExternalRequest, Order, StepCall, StepResult

T = TypeVar("T")
Ending = tuple[StepResult | AttemptFailure, ExternalRequest | None]


class HostedRun:
    """One order in this process."""

    task: "asyncio.Task[None] | None" = None
    has_begun = False
    is_cancelled = False  # by the pool
    has_ended = False  # its step; what follows is not cancelled any more

    def __init__(self, run: OrderRun) -> None:
        self.run = run


class AsyncHost:
    def __init__(self, context: WorkerContext, reader: FrameReader, writer: FrameWriter) -> None:
        self._context = context
        self._reader = reader
        self._writer = writer
        self._name = f"{context.name}-{os.getpid()}"
        self._storage = WorkerStorage(context.blobs, context.scratch)
        self._meters = MeterChannel(writer, context.clock)
        self._hosted: dict[AttemptKey, HostedRun] = {}
        self._limit_mb = 0
        self._is_stopping = False
        self._done = asyncio.Event()

    def run(self) -> None:
        """Until the pool says STOP and nothing runs any more."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 - such as SystemExit in a task that a step created
            _die(error)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        self._watch = LoopWatch(self._writer, self._context.clock)
        self._reader.on_frame = lambda kind, payload: _ignore(
            loop.call_soon_threadsafe(self._receive, kind, payload)
        )
        self._writer.send(frames.encode_frame(frames.READY, frames.Ready(os.getpid())))
        await self._done.wait()

    def _receive(self, kind: bytes, payload: bytes) -> None:
        try:
            self._handle(kind, payload)
        except BaseException as error:  # noqa: BLE001 - an order that got lost here would never end
            _die(error)

    def _handle(self, kind: bytes, payload: bytes) -> None:
        if kind == frames.CHUNK:
            self._start_orders(frames.chunk_decoder.decode(payload))
        elif kind == frames.CANCEL:
            self._cancel(frames.attempt_decoder.decode(payload))
        elif kind == frames.PING:
            self._writer.send(frames.PONG_FRAME)
        elif kind == frames.STOP:
            self._is_stopping = True
            self._note_rest()

    def _start_orders(self, chunk: frames.Chunk) -> None:
        if chunk.call.memory_mb > self._limit_mb:  # for all that runs here together
            self._limit_mb = chunk.call.memory_mb
            memory.limit(self._limit_mb)
        for order in chunk.orders:
            hosted = self._hosted[order.attempt_key] = HostedRun(self._begin(chunk.call, order))
            hosted.task = self._watch.start_order(order.attempt_key, self._run_order(hosted))
        self._watch.resume()

    def _begin(self, call: StepCall, order: Order) -> OrderRun:
        now, began = self._context.clock.now(), self._context.clock.monotonic()
        meter = OrderMeter(self._meters, began, order.attempt_key)
        return OrderRun(call, order, (now, began), meter, self._storage)

    def _cancel(self, attempt_key: AttemptKey) -> None:
        hosted = self._hosted.get(attempt_key)
        if hosted is None or hosted.has_ended:
            return
        hosted.is_cancelled = True
        # A task that has not begun would end without a word.
        if hosted.has_begun and hosted.task is not None:
            hosted.task.cancel()

    async def _run_order(self, hosted: HostedRun) -> None:
        run = hosted.run
        hosted.has_begun = True
        self._writer.send(frames.encode_frame(frames.STARTED, run.order.attempt_key))
        result: StepResult | AttemptFailure
        request = None
        try:
            result, request = await self._run_step(hosted)
        except BaseException as error:  # noqa: BLE001 - any error of a step becomes its report
            hosted.has_ended = True
            result = self._explain(hosted, error)
        run.meter.close()
        with suppress(asyncio.CancelledError):  # by code that the step left behind
            await self._off_loop(_discard(run))
        seconds = self._context.clock.monotonic() - run.began
        self._writer.send(encode_report(run, seconds, self._name, result, request))
        del self._hosted[run.order.attempt_key]
        self._note_rest()

    async def _run_step(self, hosted: HostedRun) -> Ending:
        run, call = hosted.run, hosted.run.call
        step = find_step(self._context.steps, call.step, call.version)
        if step is None or step.run_async is None:
            hosted.has_ended = True
            return failures.of_unknown_step(call, self._context.steps.get(call.step)), None
        if hosted.is_cancelled:
            raise asyncio.CancelledError
        step_input = await self._off_loop(_prepare(run, step))
        if isinstance(step_input, AttemptFailure):
            hosted.has_ended = True
            return step_input, None
        output = await self._call_step(step.run_async, step_input)
        if hosted.is_cancelled:
            raise asyncio.CancelledError  # which the step has ignored: its time was over before its end
        hosted.has_ended = True
        run.meter.close()
        # From here on the store works: its slowness does not count as the step's.
        self._writer.send(frames.encode_frame(frames.COMPUTED, run.order.attempt_key))
        return await self._off_loop(self._store(run, output))

    async def _call_step(self, run: AsyncStepFunction, step_input: StepInput) -> StepOutput:
        return await run(step_input)

    async def _store(self, run: OrderRun, given: object) -> Ending:
        """Check the output and store what it names; runs on the loop of the store."""
        try:
            output = check_output(given, run)
            value = encode_value(output.value, run.call)
        except Exception as error:  # noqa: BLE001 - any mistake of the step becomes its report
            return failures.of_error(error, run.call), None
        try:
            result = await products.store_output(self._context.blobs, run.order.file, output, value)
        except Exception as error:  # noqa: BLE001 - any error of a store becomes the report
            return failures.of_store(error, run.call), None
        run.meter.bytes_out = products.count_bytes(result)
        return result, output.external

    def _explain(self, hosted: HostedRun, error: BaseException) -> AttemptFailure:
        run = hosted.run
        if hosted.is_cancelled:  # whatever the step made of its cancellation
            return failures.of_cancellation()
        explain = failures.of_store if error is run.store_error else failures.of_error
        return explain(error, run.call)

    async def _off_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on the loop of the store, in the other thread."""
        return await asyncio.wrap_future(self._storage.background(work))

    def _note_rest(self) -> None:
        if not self._hosted:
            self._watch.rest()
            if self._is_stopping:
                self._done.set()


async def _prepare(run: OrderRun, step: Step) -> StepInput | AttemptFailure:
    try:
        step_input = await run.prepare_input(step)
    except Exception as error:  # noqa: BLE001 - any error of a store becomes the report
        return failures.of_store(error, run.call)
    try:
        memory.estimate_mb(step, step_input, run.call)  # raises Reject before the step starts
    except Exception as error:  # noqa: BLE001 - any error of a step becomes its report
        return failures.of_error(error, run.call)
    return step_input


async def _discard(run: OrderRun) -> None:
    run.discard()


def _die(error: BaseException) -> None:
    """End the process at once: threads that a step left behind must not keep it alive."""
    traceback.print_exception(error, file=sys.stderr)
    sys.stderr.flush()
    os._exit(error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1)


def _ignore(_: object) -> None:
    """Nothing comes of it."""
