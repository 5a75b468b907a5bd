"""A server whose work is done elsewhere, a batch for it, and what came of it."""

import io
import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from tests.acceptance.ingest.conftest import serving
from tests.acceptance.ingest.home import at_home
from tests.acceptance.ingest.sender import Sender
from tests.standins.machines import TASK_COMMAND, MachinesServer, machines_server

FAST = {"QUIRE_RETRY_FIRST_DELAY_SECONDS": "0.05", "QUIRE_RETRY_LONGEST_DELAY_SECONDS": "0.1"}
FAST |= {"QUIRE_COMPUTE_GRACE_SECONDS": "0.1", "QUIRE_COMPUTE_LOOK_SECONDS": "0.2"}
PROCESS = {"QUIRE_COMPUTE_TIFF": "process", "QUIRE_COMPUTE_IMAGE": "process"}


def picture(kind: str, size: tuple[int, int] = (1500, 700), pages: int = 1) -> bytes:
    out = io.BytesIO()
    width, height = size
    sheets = [
        Image.linear_gradient("L").resize((width + page, height)).convert("RGB") for page in range(pages)
    ]
    sheets[0].save(out, kind, **({"save_all": True, "append_images": sheets[1:]} if pages > 1 else {}))
    return out.getvalue()


BODIES = {
    "/box/p1.tif": (picture("TIFF"), "image/tiff"),
    "/box/x.tif": (picture("TIFF", (640, 480)), "image/tiff"),
    "/box/x.jpg": (picture("JPEG", (300, 250)), "image/jpeg"),
    "/box/many.tif": (picture("TIFF", (200, 100), pages=3), "image/tiff"),
    "/box/x-p002.jpg": (picture("JPEG", (90, 80)), "image/jpeg"),
    "/box/broken.tif": (b"II*\0 and nothing more", "image/tiff"),
    "/box/broken.jpg": (picture("JPEG")[:900], "image/jpeg"),
    "/box/letter.txt": (b"Estimada Ana", "text/plain"),
}


def fly(machines: MachinesServer) -> dict[str, str]:
    return {
        "QUIRE_COMPUTE_TIFF": "fly",
        "QUIRE_COMPUTE_IMAGE": "fly",
        "QUIRE_FLY_API": machines.url,
        "QUIRE_FLY_TOKEN": machines.token,
        "QUIRE_FLY_TIFF_APP": "tiffs",
        "QUIRE_FLY_TIFF_WORKER": "registry.example/quire:1",
        "QUIRE_FLY_IMAGE_APP": "pictures",
        "QUIRE_FLY_IMAGE_WORKER": "registry.example/quire:1",
        "QUIRE_FLY_PER_SECOND": "1000",
        "QUIRE_FLY_PRICE_PER_SECOND": "0.5",
    }


@contextmanager
def on_fly(folder: Path, *, command=TASK_COMMAND, more=None):
    """A server and its machines. The address that they call back to is known before the server is there;
    `{port}` in what `more` says is its port.
    """
    with machines_server(MachinesServer(command=command)) as machines:
        port = free_port()
        environment = FAST | fly(machines) | {"QUIRE_SERVE_PUBLIC_URL": f"http://127.0.0.1:{port}"}
        chosen = {name: text.replace("{port}", str(port)) for name, text in (more or {}).items()}
        with serving(folder, environment | chosen, "--port", str(port)) as server:
            server.port = port
            yield server, machines


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def gated(folder: Path, *, before: str = "") -> tuple[tuple[str, ...], Path]:
    """A worker that waits at a gate before it begins; the gate is a pipe that somebody must hold open."""
    gate = folder / "gate"
    os.mkfifo(gate)
    program = f"import os,sys\n{before}\nos.close(os.open({str(gate)!r},os.O_RDONLY))\n"
    program += "os.execv(sys.argv[1],sys.argv[1:])\n"
    return (sys.executable, "-c", program, *TASK_COMMAND), gate


@contextmanager
def opened(gate: Path):
    held = os.open(gate, os.O_RDWR)
    try:
        yield
    finally:
        os.close(held)


def sent(server, bodies=BODIES) -> str:
    with server.client() as client:
        total = sum(len(data) for data, _ in bodies.values())
        sender = Sender(client, file_count=len(bodies), total_size=total)
        for path, (data, kind) in bodies.items():
            url = sender.start(path, len(data), content_type=kind).raise_for_status().json()["presigned_url"]
            client.put(url, content=data).raise_for_status()
            sender.complete(path).raise_for_status()
        sender.finalize().raise_for_status()
        return sender.id


def until(server, batch: str, wanted) -> dict:
    """Follow the batch until its progress is as wanted."""
    with server.client() as client, client.stream("GET", f"/api/batches/{batch}/events") as events:
        kind = ""
        for line in events.iter_lines():
            kind = line.removeprefix("event: ") if line.startswith("event: ") else kind
            if kind == "progress" and line.startswith("data: "):
                progress = json.loads(line.removeprefix("data: "))
                if wanted(progress):
                    return progress
    raise AssertionError(f"the batch {batch} has ended without that")


def finished(server, batch: str) -> dict:
    return until(server, batch, lambda said: said["status"] in {"DONE", "ERROR"})


def outcomes(server, batch: str) -> dict:
    """By path: how it ended, and what was made of it, with its bytes."""

    async def look(office):
        known = await office.batches.get_batch(batch)
        found = {}
        for one in await office.records.list_inputs(known.no, limit=100):
            made = {}
            for role, file in one.made:
                data = await office.blobs.get(file.key)
                assert len(data) == file.size
                made[role, file.path] = (file.content_type, file.tags, file.source_file, file.cid, data)
            found[one.path] = (str(one.outcome), one.error_class, made)
        return found

    return at_home(server, look)


def attempts(server, batch: str, path: str) -> list:
    """Of all tasks on what was made of this input."""

    async def look(office):
        known = await office.batches.get_batch(batch)
        return (await office.records.get_file_history(known.no, path))[1]

    return at_home(server, look)


def strays(server, batch: str) -> list:
    async def look(office):
        known = await office.batches.get_batch(batch)
        return await office.records.list_stray_reports(known.no, limit=100)

    return at_home(server, look)
