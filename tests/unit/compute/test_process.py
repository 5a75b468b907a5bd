"""One real process for each order: apart from each other, limited, and gone as a group."""

import asyncio
import os
import select
import sys

import pytest

from quire.compute.remote.process import ProcessLauncher
from quire.model.errors import Retry
from quire.model.work import Order, StepCall
from quire.testing.factories import file

CALL = StepCall(step="s", version=1, memory_mb=512)
ORDER = Order(1, 2, 3, file())


class Bench:
    def __init__(self, folder):
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.out = folder / "out"
        os.mkfifo(self.out)
        self.launchers = []

    def launcher(self, program, **environment):
        command = (sys.executable, "-c", program)
        made = ProcessLauncher(command, {"PATH": os.environ["PATH"], **environment}, self.scratch)
        self.launchers.append(made)
        return made

    async def says(self):
        """What somebody writes into the pipe."""
        return await asyncio.to_thread(self.out.read_text)


@pytest.fixture
async def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    for launcher in bench.launchers:
        await launcher.close()


def telling(what):
    return f"import os,resource\nopen(os.environ['OUT'],'w').write(str({what}))\n"


async def ending(launcher, handle):
    watcher = launcher._watchers.get(handle)
    if watcher is not None:
        await watcher
    return (await launcher.find_ended([handle]))[handle]


async def test_a_process_gets_the_workers_environment_and_nothing_of_ours(bench, monkeypatch):
    monkeypatch.setenv("QUIRE_S3_SECRET_ACCESS_KEY", "secret")
    launcher = bench.launcher(telling("sorted(os.environ)"), LANG="C.UTF-8")
    await launcher.launch(ORDER, CALL, {"TASK_ID": "t", "OUT": str(bench.out)})
    known = {"PATH", "LANG", "TASK_ID", "OUT", "TMPDIR"}
    assert known <= set(eval(await bench.says())) <= known | {"LC_CTYPE"}  # noqa: S307 - our own words


async def test_its_memory_is_limited_and_its_folder_is_its_own_and_goes_with_it(bench):
    launcher = bench.launcher(
        telling("(resource.getrlimit(resource.RLIMIT_DATA)[0], os.getcwd(), os.environ['TMPDIR'])")
    )
    handle = await launcher.launch(ORDER, CALL, {"OUT": str(bench.out)})
    limit, folder, temporary = eval(await bench.says())  # noqa: S307 - our own words
    assert limit == 512 << 20
    assert folder == temporary
    assert folder.startswith(str(bench.scratch))
    await ending(launcher, handle)
    assert list(bench.scratch.iterdir()) == []


async def test_it_is_ended_with_all_that_it_started(bench):
    program = "import os,subprocess,sys\nchild=subprocess.Popen(['sleep','1000'])\n"
    program += "open(os.environ['OUT'],'w').write(str(child.pid))\nchild.wait()\n"
    launcher = bench.launcher(program)
    handle = await launcher.launch(ORDER, CALL, {"OUT": str(bench.out)})
    grandchild = os.pidfd_open(int(await bench.says()))
    assert await launcher.list_machines() == {handle: (1, 2, 3)}
    await launcher.end(handle)
    assert select.select([grandchild], [], [], 30)[0]
    os.close(grandchild)
    assert await ending(launcher, handle) == "signal SIGKILL"
    assert await launcher.list_machines() == {}
    await launcher.end(handle)  # again, and nothing happens


async def test_what_it_left_running_is_ended_with_it(bench):
    program = "import os,subprocess\nchild=subprocess.Popen(['sleep','1000'])\n"
    program += "open(os.environ['OUT'],'w').write(str(child.pid))\n"
    launcher = bench.launcher(program)
    handle = await launcher.launch(ORDER, CALL, {"OUT": str(bench.out)})
    grandchild = os.pidfd_open(int(await bench.says()))
    assert await ending(launcher, handle) == "exit code 0"
    assert select.select([grandchild], [], [], 30)[0]
    os.close(grandchild)


async def test_its_last_words_are_kept(bench):
    launcher = bench.launcher("import sys; sys.exit('the disk is on fire')")
    handle = await launcher.launch(ORDER, CALL, {})
    assert await ending(launcher, handle) == "exit code 1; its last output: the disk is on fire"


async def test_its_last_words_do_not_tell_what_it_was_told_in_confidence(bench):
    program = "import os,sys; sys.exit(' '.join([os.environ['R2_SECRET_ACCESS_KEY'], os.environ['TASK_ID']]))"
    launcher = bench.launcher(program)
    told = {"R2_SECRET_ACCESS_KEY": "quite secret", "TASK_ID": "tiff_3f0a"}
    handle = await launcher.launch(ORDER, CALL, told)
    assert await ending(launcher, handle) == "exit code 1; its last output: … tiff_3f0a"


async def test_a_command_that_does_not_exist_says_so(bench):
    launcher = ProcessLauncher(("/nowhere/quire",), {}, bench.scratch)
    handle = await launcher.launch(ORDER, CALL, {})
    assert "No such file" in await ending(launcher, handle)


async def test_a_folder_that_is_gone_is_a_passing_fault(bench, monkeypatch):
    async def refuse(*_, **__):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    with pytest.raises(Retry, match="temporarily"):
        await bench.launcher("").launch(ORDER, CALL, {})
    assert list(bench.scratch.iterdir()) == []
