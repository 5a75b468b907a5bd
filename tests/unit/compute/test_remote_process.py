"""A worker process behind an actor, without any cluster: the actor's methods are called right here."""

import asyncio
import os
import sys
import types
from pathlib import Path

import pytest

from quire.assembly.ray import NodeWorkerSetup
from quire.compute.ray import compute as ray_module
from quire.compute.ray.compute import RayOptions
from quire.compute.ray.remote_process import ActorProcess, RemoteSlot, summarize_error
from quire.model.errors import Misconfigured

ECHO = "import sys; [(sys.stdout.write(line), sys.stdout.flush()) for line in sys.stdin]"
LAST = "import sys; sys.stderr.write('farewell'); sys.exit(3)"


class GoneError(Exception):
    pass


class WorkerSetup:
    name, environment = "far", os.environ

    def __init__(self, code=ECHO):
        self.command = (sys.executable, "-c", code)
        self.closed = False

    def close(self):
        self.closed = True


class Handle:
    """Speaks to a slot as the handle of an actor does."""

    def __init__(self, slot):
        self._slot = slot
        self.dead = False

    def __getattr__(self, name):
        return types.SimpleNamespace(remote=lambda *given: asyncio.ensure_future(self._call(name, *given)))

    async def _call(self, name, *given):
        if self.dead:
            raise GoneError("the actor died\nlong story\nbecause of its node")
        return await getattr(self._slot, name)(*given)


class Far:
    def __init__(self, code=ECHO):
        self.setup = WorkerSetup(code)
        self.handle = Handle(RemoteSlot(lambda: self.setup))
        self.given_back = []

    async def child(self):
        pid, name = await self.handle.start.remote()
        assert name == f"far-{pid}"
        return ActorProcess(
            self.handle, pid, name, lost=GoneError, on_end=lambda _, usable: self.given_back.append(usable)
        )


async def test_bytes_go_there_and_back_in_order():
    far = Far()
    child = await far.child()
    said = b"".join(b"%d\n" % number for number in range(100))
    for line in said.splitlines(keepends=True):
        child.write(line)
    heard = b""
    while len(heard) < len(said):
        heard += await child.read()
    assert heard == said
    child.kill()
    assert await child.read() == b""
    assert await child.wait() == "signal SIGKILL"
    assert far.given_back == [True]


async def test_an_end_comes_with_its_last_words():
    child = await Far(LAST).child()
    assert await child.read() == b""
    assert (await child.wait(), child.read_stderr()) == ("exit code 3", "farewell")


async def test_what_is_meant_for_a_process_that_has_ended_does_not_reach_the_next():
    far = Far()
    first = await far.child()
    first.kill()
    await first.wait()
    second = await far.child()
    first.kill()
    first.write(b"for the first\n")
    second.write(b"for the second\n")
    assert await second.read() == b"for the second\n"
    await far.handle.close.remote()
    assert far.setup.closed


async def test_an_actor_that_is_gone_takes_its_process_along():
    far = Far()
    child = await far.child()
    far.handle.dead = True
    child.write(b"x")
    assert await child.read() == b""
    assert "is gone: the actor died because of its node" in await child.wait()
    child.kill()
    assert far.given_back == [False]
    far.handle.dead = False
    await far.handle.close.remote()


async def test_a_machine_on_which_nothing_can_be_started_says_why():
    def refuse():
        raise Misconfigured("no folder here")

    assert await RemoteSlot(refuse).start() == (0, "no folder here")
    setup = WorkerSetup()
    setup.command = ("/nowhere/python",)
    pid, why = await RemoteSlot(lambda: setup).start()
    assert pid == 0
    assert "cannot be started" in why


def test_an_error_without_words_is_told_by_its_name():
    assert summarize_error(GoneError()) == "GoneError"


def test_a_machine_must_see_the_folder_of_the_run(tmp_path):
    assert NodeWorkerSetup(str(tmp_path)).command[-1] == str(tmp_path)
    with pytest.raises(Misconfigured, match="does not see the folder"):
        NodeWorkerSetup(str(tmp_path / "elsewhere"))


def test_with_the_bytes_elsewhere_a_machine_has_a_folder_of_its_own_for_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    setup = NodeWorkerSetup("")
    scratch = setup.command[-1]
    assert scratch.startswith(str(tmp_path))
    assert Path(scratch).is_dir()
    setup.close()
    assert not Path(scratch).exists()


def test_a_folder_that_others_can_look_into_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"quire-ray-{os.getuid()}").mkdir(mode=0o755)
    with pytest.raises(Misconfigured, match="accessible to other users"):
        NodeWorkerSetup("")


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Misconfigured, match=r"pip install 'quire\[ray\]'"):
        ray_module._import_ray()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:1", "no Ray cluster answers"),
        ("here", "host:port"),
        ("a:b", "host:port"),
        (":6379", "host:port"),
    ],
)
def test_an_address_at_which_nobody_answers_is_told_at_once(address, words):
    with pytest.raises(Misconfigured, match=words):
        ray_module._check_reachable(address)


@pytest.mark.parametrize(
    ("cpus", "memory_mb", "workers"), [(1, 0, 4), (0.5, 0, 8), (3, 0, 1), (5, 0, 0), (1, 1024, 2)]
)
def test_as_many_workers_fit_as_processors_and_memory_allow(cpus, memory_mb, workers):
    resources = {"CPU": 4.0, "memory": 2.5 * (1 << 30)}
    assert ray_module._count_fitting(resources, RayOptions(cpus=cpus, memory_mb=memory_mb)) == workers
    assert ray_module._count_fitting({}, RayOptions()) == 0
