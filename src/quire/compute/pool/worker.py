"""A worker process: takes chunks of orders from its pipe, runs the steps, sends reports.

The main thread runs steps and nothing else; a second one stores products and sends their reports, so that
the disk works while the processor does. The result is in storage before the report is sent. A third
listens to the pipe, gives back what has not started when the pool wants it, and ends the process when the
pool is gone. What a step would need beyond its limit is not begun.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from quire.blobs import asset_records, content
from quire.blobs.port import Blobs
from quire.compute import failures
from quire.compute.failures import Failure
from quire.compute.pool import frames, memory
from quire.compute.pool.job import Job, Supply
from quire.compute.pool.meter import Line, OrderMeter
from quire.compute.pool.pipe import Inbox, Outbox
from quire.compute.pool.results import checked
from quire.model.asset import drafted, tiled
from quire.model.clock import Clock
from quire.model.cost import NO_COST, Cost
from quire.model.errors import Misconfigured
from quire.model.files import Product
from quire.model.step import Made, Step, StepInput, StepOutput
from quire.model.work import Order, Outcome, Report, StepCall, StepResult

# How many finished orders may wait for the disk before the next one has to.
PERSISTING_AT_ONCE = 4
_PR_SET_PDEATHSIG = 1


class Toolbox(Struct, frozen=True, kw_only=True):
    """What a worker works with; built in its own process from the pool's greeting."""

    blobs: Blobs
    steps: Mapping[str, Step]
    scratch: Path
    clock: Clock
    name: str = "local"  # reports call the worker by it and by the number of its process


def serve(build: Callable[[bytes], Toolbox]) -> None:
    """The life of a worker process on its standard input and output."""
    die_with_parent()
    # The pool stops us through the pipe; Ctrl-C in a terminal reaches every process of the group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inbox, outbox = Inbox(os.dup(0)), Outbox(os.dup(1))
    os.dup2(2, 1)  # whatever a library prints must not get between the frames
    kind, greeting = inbox.get()
    if kind != frames.HELLO:
        raise Misconfigured("a worker must be greeted first")
    worker = Worker(build(greeting), inbox, outbox)
    outbox.send(frames.frame(frames.READY, frames.Ready(os.getpid())))
    worker.run()
    os._exit(0)  # threads of libraries must not keep us


class Worker:
    def __init__(self, toolbox: Toolbox, inbox: Inbox, outbox: Outbox) -> None:
        self._tools = toolbox
        self._inbox = inbox
        self._outbox = outbox
        self._name = f"{toolbox.name}-{os.getpid()}"
        self._places = threading.Semaphore(PERSISTING_AT_ONCE)
        self._retired = False
        self._chunks = 0
        self._recalled = 0  # nothing is started of the chunks up to this one
        self._turn = threading.Lock()  # over what starts next, and what is given back
        inbox.on_recall = self._give_back
        self._supply = Supply(toolbox.blobs, toolbox.scratch)
        self._line = Line(outbox, toolbox.clock)

    def run(self) -> None:
        while not self._retired:
            kind, payload = self._inbox.get()
            if kind == frames.STOP:
                break
            self._run_chunk(frames.chunk_decoder.decode(payload))
        for _ in range(PERSISTING_AT_ONCE):  # until everything is stored and reported
            self._places.acquire()
        self._outbox.send()

    def _run_chunk(self, chunk: frames.Chunk) -> None:
        self._chunks += 1
        memory.limit(chunk.call.memory_mb)
        step = self._tools.steps.get(chunk.call.step)
        if step is not None and step.version != chunk.call.version:
            step = None
        revoked = self._inbox.revoked
        for order in chunk.orders:
            if self._retired or self._inbox.stopping.is_set():
                break  # what was not started goes back to the pool
            with self._turn:
                if self._recalled >= self._chunks:
                    break  # somebody else has it
                if revoked and revoked.get(order.batch_no, 0) >= self._chunks:
                    self._outbox.add(frames.SKIPPED_FRAME)
                    continue
                self._outbox.send(frames.STARTED_FRAME)
            self._run_order(step, chunk.call, order, chunk.granted_mb)
        self._outbox.send()

    def _give_back(self, chunks: int) -> None:
        with self._turn:
            self._recalled = chunks
            self._outbox.send(frames.RECALLED_FRAME)

    def _run_order(self, step: Step | None, call: StepCall, order: Order, granted_mb: int) -> None:
        clock = self._tools.clock
        began = clock.monotonic()
        job = Job(call, order, (clock.now(), began), OrderMeter(self._line, began), self._supply)
        if step is None:
            self._report(job, failures.of_unknown_step(call))
        elif not step.needs_source and call.unit == "file":
            self._finish(job, step, job.bare_input(), granted_mb)
        else:
            try:
                given = job.full_input()
            except Exception as error:  # noqa: BLE001 - whatever a store raises becomes the report
                self._fail(job, failures.of_store(error, call))
                return
            self._finish(job, step, given, granted_mb)

    def _finish(self, job: Job, step: Step, given: StepInput, granted_mb: int) -> None:
        try:
            need_mb = memory.needed_mb(step, given, job.call)
            if need_mb > granted_mb and not self._may_begin(need_mb):
                job.meter.close()
                job.discard()
                return
            output = checked(step.run(given), job)
        except BaseException as error:  # noqa: BLE001 - whatever a step raises becomes its report
            # A fresh process has its memory whole again.
            self._retired = self._retired or isinstance(error, MemoryError)
            explain = failures.of_store if error is job.store_error else failures.of_error
            self._fail(job, explain(error, job.call))
            return
        job.meter.close()
        if need_mb > granted_mb or need_mb > memory.LARGE_MB:
            memory.give_back()
        if output.made or output.asset is not None:
            # From here on the store is at work: its slowness is not to be taken for the step's.
            self._outbox.send(frames.COMPUTED_FRAME)
            self._places.acquire()
            self._supply.background(self._keep(job, output))
        else:
            job.discard()
            self._report(job, StepResult(facts=output.facts))

    def _may_begin(self, need_mb: int) -> bool:
        self._outbox.send(frames.frame(frames.WEIGHED, frames.Weighed(need_mb)))
        return self._inbox.answer() == frames.GO

    def _fail(self, job: Job, failure: Failure) -> None:
        job.meter.close()
        job.discard()
        self._report(job, failure)

    async def _keep(self, job: Job, output: StepOutput) -> None:
        """Store the products, then report."""
        result: StepResult | Failure
        try:
            paths = [made.path for made in output.made]
            stored = await content.put_files(self._tools.blobs, paths, owned=True)
            products = tuple(map(_product, output.made, stored))
            if output.asset is not None:
                asset, tiles = drafted(output.asset, job.order.file, products), tiled(products)
                await asset_records.register(self._tools.blobs, asset)
                if tiles is not None:
                    await asset_records.register_tiles(self._tools.blobs, asset.id, tiles)
            result = StepResult(products=products, facts=output.facts)
            job.meter.bytes_out = sum(one.size for one in stored)
        except Exception as error:  # noqa: BLE001 - whatever a store raises becomes the report
            result = failures.of_store(error, job.call)
        job.discard()
        self._report(job, result)
        self._outbox.send()
        self._places.release()

    def _report(self, job: Job, result: StepResult | Failure) -> None:
        seconds = self._tools.clock.monotonic() - job.began
        cost = job.meter.cost()
        report = report_of(job.order, job.started_at, seconds, self._name, result, cost)
        try:
            framed = frames.frame(frames.REPORT, report)
            if isinstance(result, Failure) or result.facts or result.products:
                # What a step wrote is read back here: in the pool it would break everything.
                frames.report_decoder.decode(framed[frames.HEAD_BYTES :])
        except Exception as error:  # noqa: BLE001 - whatever stands in the way becomes the report
            failure = failures.of_unreadable(error, job.call)
            report = report_of(job.order, job.started_at, seconds, self._name, failure, cost)
            framed = frames.frame(frames.REPORT, report)
        self._outbox.add(framed)


def _product(made: Made, stored: content.Content) -> Product:
    return Product(
        role=made.role,
        key=stored.key,
        size=stored.size,
        content_type=made.content_type,
        digest=stored.digest,
        facts=made.facts,
    )


def report_of(
    order: Order,
    started_at: float,
    seconds: float,
    worker: str,
    result: StepResult | Failure,
    cost: Cost = NO_COST,
) -> Report:
    names = (order.batch_no, order.task_no, order.attempt)
    if isinstance(result, Failure):
        said = (result.error_class, result.error, result.delay_seconds)
        return Report(*names, result.outcome, started_at, seconds, worker, None, *said, cost)
    return Report(*names, Outcome.DONE, started_at, seconds, worker, result, "", "", 0.0, cost)


def die_with_parent() -> None:
    """Also while a step holds the interpreter's lock, when no thread of ours could notice."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
