"""A worker process: takes chunks of orders from its pipe, runs the steps, sends reports.

The main thread only runs steps; a second thread stores products and sends their reports, so that the disk
works while the processor does. The result is in storage before the report is sent. A third thread reads the
pipe, gives back orders that have not started when the pool recalls them, and ends the process when the pool
is gone. A step that would need more memory than its limit is not started.
"""

import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from quire.blobs import asset_records, content
from quire.blobs.port import Blobs
from quire.compute import failures
from quire.compute.failures import AttemptFailure
from quire.compute.pool import frames, memory
from quire.compute.pool.meter import MeterChannel, OrderMeter
from quire.compute.pool.order_run import OrderRun, WorkerStorage
from quire.compute.pool.pipe import FrameReader, FrameWriter
from quire.compute.pool.results import check_output
from quire.compute.reports import build_report
from quire.model.asset import build_asset, build_tiles
from quire.model.clock import Clock
from quire.model.errors import Misconfigured
from quire.model.files import Product
from quire.model.step import OutputFile, Step, StepInput, StepOutput
from quire.model.work import Order, StepCall, StepResult
from quire.tools.child_process import die_with_parent

# So many finished orders may be stored at the same time before the next one has to wait.
STORING_AT_ONCE = 4


class WorkerContext(Struct, frozen=True, kw_only=True):
    """The components of a worker; built in its own process from its configuration."""

    blobs: Blobs
    steps: Mapping[str, Step]
    scratch: Path
    clock: Clock
    name: str = "local"  # reports name the worker by this and the number of its process


def serve(build: Callable[[bytes], WorkerContext]) -> None:
    """Run a worker on the standard input and output of this process, to its end."""
    die_with_parent()
    # The pool stops this process through the pipe, not by a signal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reader, writer = FrameReader(os.dup(0)), FrameWriter(os.dup(1))
    os.dup2(2, 1)  # output of libraries must not get between the frames
    kind, configuration = reader.get()
    if kind != frames.HELLO:
        raise Misconfigured("the first frame of a worker must be HELLO")
    worker = StepWorker(build(configuration), reader, writer)
    writer.send(frames.encode_frame(frames.READY, frames.Ready(os.getpid())))
    worker.run()
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

    def run(self) -> None:
        while not self._is_retiring:
            kind, payload = self._reader.get()
            if kind == frames.STOP:
                break
            self._run_chunk(frames.chunk_decoder.decode(payload))
        for _ in range(STORING_AT_ONCE):  # until everything is stored and reported
            self._storing.acquire()
        self._writer.send()

    def _run_chunk(self, chunk: frames.Chunk) -> None:
        self._chunks += 1
        memory.limit(chunk.call.memory_mb)
        step = self._context.steps.get(chunk.call.step)
        if step is not None and step.version != chunk.call.version:
            step = None
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
            self._report(run, failures.of_unknown_step(call))
        elif not step.needs_source and call.unit == "file":
            self._run_step(run, step, run.build_bare_input(), granted_mb)
        else:
            try:
                step_input = run.build_input()
            except Exception as error:  # noqa: BLE001 - any error of a store becomes the report
                self._fail(run, failures.of_store(error, call))
                return
            self._run_step(run, step, step_input, granted_mb)

    def _run_step(self, run: OrderRun, step: Step, step_input: StepInput, granted_mb: int) -> None:
        try:
            need_mb = memory.estimate_mb(step, step_input, run.call)
            if need_mb > granted_mb and not self._ask_for_memory(need_mb):
                run.meter.close()
                run.discard()
                return
            output = check_output(step.run(step_input), run)
        except BaseException as error:  # noqa: BLE001 - any error of a step becomes its report
            # A fresh process has all of its memory again.
            self._is_retiring = self._is_retiring or isinstance(error, MemoryError)
            explain = failures.of_store if error is run.store_error else failures.of_error
            self._fail(run, explain(error, run.call))
            return
        run.meter.close()
        if need_mb > granted_mb or need_mb > memory.LARGE_MB:
            memory.trim()
        if output.files or output.asset is not None:
            # From here on the store works: its slowness does not count as the step's.
            self._writer.send(frames.COMPUTED_FRAME)
            self._storing.acquire()
            self._storage.background(self._store(run, output))
        else:
            run.discard()
            self._report(run, StepResult(facts=output.facts))

    def _ask_for_memory(self, need_mb: int) -> bool:
        self._writer.send(frames.encode_frame(frames.NEEDS_MEMORY, frames.MemoryRequest(need_mb)))
        return self._reader.answer() == frames.GO

    def _fail(self, run: OrderRun, failure: AttemptFailure) -> None:
        run.meter.close()
        run.discard()
        self._report(run, failure)

    async def _store(self, run: OrderRun, output: StepOutput) -> None:
        """Store the products, then send the report."""
        result: StepResult | AttemptFailure
        try:
            paths = [file.path for file in output.files]
            stored = await content.put_files(self._context.blobs, paths, owned=True)
            products = tuple(map(_build_product, output.files, stored))
            if output.asset is not None:
                asset, tiles = build_asset(output.asset, run.order.file, products), build_tiles(products)
                await asset_records.register(self._context.blobs, asset)
                if tiles is not None:
                    await asset_records.register_tiles(self._context.blobs, asset.id, tiles)
            result = StepResult(products=products, facts=output.facts)
            run.meter.bytes_out = sum(one.size for one in stored)
        except Exception as error:  # noqa: BLE001 - any error of a store becomes the report
            result = failures.of_store(error, run.call)
        run.discard()
        self._report(run, result)
        self._writer.send()
        self._storing.release()

    def _report(self, run: OrderRun, result: StepResult | AttemptFailure) -> None:
        seconds = self._context.clock.monotonic() - run.began
        cost = run.meter.cost()
        report = build_report(run.order, run.started_at, seconds, self._name, result, cost)
        try:
            framed = frames.encode_frame(frames.REPORT, report)
            if isinstance(result, AttemptFailure) or result.facts or result.products:
                # Decoded here first: content that cannot be decoded would break the pool.
                frames.report_decoder.decode(framed[frames.HEAD_BYTES :])
        except Exception as error:  # noqa: BLE001 - any error becomes the report
            failure = failures.of_bad_result(error, run.call)
            report = build_report(run.order, run.started_at, seconds, self._name, failure, cost)
            framed = frames.encode_frame(frames.REPORT, report)
        self._writer.add(framed)


def _build_product(file: OutputFile, stored: content.Content) -> Product:
    return Product(
        role=file.role,
        key=stored.key,
        size=stored.size,
        content_type=file.content_type,
        digest=stored.digest,
        facts=file.facts,
    )
