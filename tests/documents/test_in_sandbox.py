"""Every kind of document is decoded in the sandbox as without one: the same files, the same refusals."""

import hashlib
from pathlib import Path

import msgspec
import pytest

from quire.assembly.worker import WORKER_COMMAND
from quire.assembly.worker_blobs import WorkerConfiguration
from quire.blobs import content
from quire.blobs.local import LocalBlobs
from quire.compute.pool.local import LocalCompute
from quire.model.files import File
from quire.model.work import Order, StepCall
from quire.settings import worker_environment
from quire.steps.registry import STEPS
from quire.system import LoopSignal, SystemClock
from quire.tools.sniff import content_type
from quire.tools.vips import WORKER_ENVIRONMENT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CORPUS = Path(__file__).parent / "corpus"
KINDS = {"tiff_to_jpeg": "tiff", "image_variants": "image", "pdf_split": "pdf", "pdf_markdown": "pdf"}
OPTIONS = {"pdf_split": {"dpi": 30}, "pdf_markdown": {"converter": "liteparse"}}
LARGEST_BYTES = 400_000  # larger ones show nothing more here, and take their time


async def run_all(folder, step, mode):
    """(outcome, class, digests of products, facts) of each document, by its name."""
    blobs = LocalBlobs(folder / "blobs")
    (folder / f"scratch-{mode}").mkdir()
    configuration = WorkerConfiguration(
        blobs_root=str(folder / "blobs"),
        s3=None,
        step_modules=("quire.steps.registry",),
        scratch=str(folder / f"scratch-{mode}"),
        sandbox=mode,
        private=(str(folder),),
    )
    signal = LoopSignal()
    compute = LocalCompute(
        command=WORKER_COMMAND,
        environment=worker_environment() | WORKER_ENVIRONMENT,
        configuration=msgspec.json.encode(configuration),
        workers=1,
        clock=SystemClock(),
        signal=signal,
    )
    compute.start()
    paths = [path for path in sorted((CORPUS / KINDS[step]).iterdir()) if path.stat().st_size < LARGEST_BYTES]
    orders = []
    for number, path in enumerate(paths):
        stored = await content.put_file(blobs, path)
        kind = content_type(path.name, path.read_bytes())
        file = File(
            key=stored.key,
            path=path.name,
            name=path.name,
            size=stored.size,
            digest=stored.digest,
            content_type=kind,
        )
        orders.append(Order(1, number, 1, file))
    call = StepCall(step=step, version=STEPS[step].version, options=OPTIONS.get(step, {}))
    reports = []
    try:
        await compute.submit(call, orders)
        while len(reports) < len(orders):
            assert await signal.wait(120)
            reports += compute.take_reports()
    finally:
        await compute.stop(0)
    assert len(reports) > 5
    return {paths[one.task_no].name: describe(one) for one in reports}


def describe(report):
    made = report.result
    if made is None:
        return report.outcome, report.error_class
    return (
        report.outcome,
        [(one.role, one.digest, one.content_type) for one in made.products],
        hashlib.sha256(msgspec.json.encode([made.facts, made.value], order="deterministic")).hexdigest(),
    )


@pytest.mark.parametrize("step", KINDS)
async def test_documents_come_out_of_the_sandbox_as_without_it(step, tmp_path):
    inside = await run_all(tmp_path, step, "on")
    assert not [name for name, what in inside.items() if "sandbox_violation" in what]
    assert any(what[0] == "done" for what in inside.values())
    assert inside == await run_all(tmp_path, step, "off")
