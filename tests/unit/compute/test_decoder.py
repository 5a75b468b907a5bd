"""Steps in the sandbox: what they try and must not do, and what they do as without one."""

import json
import socket
import stat
import subprocess
import sys
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from quire.blobs import content
from quire.compute.pool.values import INLINE_BYTES
from quire.model.cost import Cost
from quire.model.work import MemberFile, Order, Outcome, StepCall, Value
from quire.testing.factories import file
from quire.tools import sandbox

MODULES = ("quire.testing.sandbox_steps",)
# Without a sandbox these work, which shows that the tries are real; the others need no proof, or do damage.
REAL = ["inet", "inet6", "unix", "pair", "thread", "spawn", "fork", "write", "read", "list", "mode", "time"]


@contextmanager
def targets(folder):
    """What the steps try their hands on, and the options that name it."""
    outside = folder / "outside"
    outside.mkdir()
    secret = outside / "secret"
    secret.write_text("a key", "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as door:
        door.bind(str(folder / "door"))
        door.listen()
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
            yield {
                "outside": str(outside),
                "secret": str(secret),
                "victim": victim.pid,
                "address": list(server.getsockname()),
                "door": str(folder / "door"),
            }
            assert victim.poll() is None, "the victim was killed"
            victim.communicate(b"\n")


async def kept(pool, data, name="a.txt", **changes):
    stored = await content.put_bytes(pool.blobs, data)
    return file(name, key=stored.key, size=stored.size, digest=stored.digest, **changes)


async def take_one(pool, call, order):
    await pool.compute.submit(call, [order])
    (report,) = await pool.take_reports(1)
    return report


async def test_whatever_a_decoder_tries_is_refused(tmp_path, pool):
    with targets(tmp_path) as options:
        async with pool(step_modules=MODULES) as opened:
            source = await kept(opened, b"an input")
            call = StepCall(step="try_all", version=1, options=options)
            report = await take_one(opened, call, Order(1, 1, 1, source))
            assert report.outcome is Outcome.DONE, report.error
            came = report.result.value.data
            assert len(came) > 30
            allowed = {"EPERM", "EACCES", "EXDEV"}
            assert {name: what for name, what in came.items() if what not in allowed} == {}
            # What the sandbox did not let through did not happen.
            assert Path(options["secret"]).read_text("utf-8") == "a key"
            assert [path.name for path in Path(options["outside"]).iterdir()] == ["secret"]
            assert opened.blobs.local_path(source.key).read_bytes() == b"an input"
            assert stat.S_IMODE(opened.blobs.local_path(source.key).stat().st_mode) == 0o444


@pytest.mark.parametrize("what", REAL)
async def test_the_same_works_without_a_sandbox(what, tmp_path, pool):
    with targets(tmp_path) as options:
        async with pool(step_modules=MODULES) as opened:
            call = StepCall(step="try_free", version=1, options=options | {"what": what})
            report = await take_one(opened, call, Order(1, 1, 1, await kept(opened, b"an input")))
            assert (report.outcome, report.error) == (Outcome.DONE, "")


@pytest.mark.parametrize("what", ["inet", "spawn", "write", "read", "kill"])
async def test_a_step_that_meets_the_limits_fails_for_good_and_the_pool_goes_on(what, tmp_path, pool):
    with targets(tmp_path) as options:
        async with pool(step_modules=MODULES) as opened:
            source = await kept(opened, b"an input")
            call = StepCall(step="try", version=1, options=options | {"what": what})
            report = await take_one(opened, call, Order(1, 1, 1, source))
            assert (report.outcome, report.error_class) == (Outcome.REJECTED, "sandbox_violation")
            assert "the step try tried what its sandbox forbids" in report.error
            after = await take_one(opened, StepCall(step="copy", version=1), Order(1, 2, 1, source))
            assert after.outcome is Outcome.DONE
            assert after.worker == report.worker


async def test_the_database_and_the_store_are_out_of_reach_also_beside_readable_modules(tmp_path, pool):
    """The home folder lies in one that modules are imported from, as beside a pipeline."""
    home = tmp_path / "code" / "home"
    home.mkdir(parents=True)
    (home / "quire.db").write_text("tables", "utf-8")
    (tmp_path / "code" / "module.py").write_text("x = 1\n", "utf-8")
    rules = sandbox.SandboxRules(readable=(str(tmp_path / "code"),), private=(str(home),))
    code = (
        "import sys\n"
        "from quire.tools import sandbox\n"
        f"sandbox.enter(sandbox.SandboxRules(readable={rules.readable!r}, private={rules.private!r}))\n"
        f"sys.path.insert(0, {str(tmp_path / 'code')!r})\n"
        "import module\n"
        f"try: open({str(home / 'quire.db')!r})\n"
        "except PermissionError: print('closed')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("closed\n", "")


async def test_other_inputs_and_the_blobs_of_others_are_out_of_reach(tmp_path, pool):
    async with pool(step_modules=MODULES) as opened:
        mine, others = await kept(opened, b"mine"), await kept(opened, b"of somebody else", "b.txt")
        path = opened.blobs.local_path(others.key)
        with targets(tmp_path) as options:
            options |= {"what": "read", "secret": str(path)}
            call = StepCall(step="try", version=1, options=options)
            report = await take_one(opened, call, Order(1, 1, 1, mine))
            assert report.error_class == "sandbox_violation"


async def test_a_decoder_cannot_pass_off_a_file_of_the_machine_as_its_output(tmp_path, pool):
    secret = tmp_path / "secret"
    secret.write_text("a key", "utf-8")
    async with pool(step_modules=MODULES) as opened:
        call = StepCall(step="lie", version=1, options={"secret": str(secret)})
        report = await take_one(opened, call, Order(1, 1, 1, await kept(opened, b"an input")))
        assert (report.outcome, report.error_class) == (Outcome.REJECTED, "bad_result")
        assert "lies outside its folder" in report.error


async def test_no_secret_and_no_open_file_comes_along(tmp_path, pool):
    environment = {"AWS_SECRET_ACCESS_KEY": "s3cr3t", "PYTHONSECRET": "s3cr3t"}
    async with pool(step_modules=MODULES, environment=environment) as opened:
        call = StepCall(step="see", version=1)
        report = await take_one(opened, call, Order(1, 1, 1, await kept(opened, b"an input")))
        seen = report.result.value.data
        assert "s3cr3t" not in json.dumps(seen)
        assert f"local-{seen['pid']}" != report.worker  # in a process of its own
        links = set(seen["descriptors"].values())
        assert all(link.startswith(("pipe:", "/dev/null", "/proc/")) for link in links), links


async def test_results_cost_and_facts_are_those_of_any_step(pool):
    async with pool(step_modules=MODULES) as opened:
        source = await kept(opened, b"an input")
        report = await take_one(opened, StepCall(step="copy", version=1), Order(1, 1, 1, source))
        (product,) = report.result.products
        assert product.key == source.key  # the same bytes, stored by the worker
        assert report.cost == Cost(bytes_in=8, bytes_out=8, tokens_in=3, money_micros=1000)
        assert report.result.facts == {"name": "input"}


async def test_members_and_large_values_are_fetched_by_the_worker(pool):
    async with pool(step_modules=MODULES) as opened:
        large = json.dumps("x" * INLINE_BYTES).encode()
        stored = await content.put_bytes(opened.blobs, large)
        value = Value(key=stored.key, size=stored.size, digest=stored.digest)
        one, two = await kept(opened, b"one "), await kept(opened, b"two", "b.txt")
        fields = ("key", "path", "name", "size", "content_type", "digest")
        members = [
            MemberFile(**{field: getattr(each, field) for field in fields}, values={"words": value})
            for each in (one, two)
        ]
        listing = await kept(opened, msgspec.json.encode(members), "folder")
        call = StepCall(step="join", version=1, unit="folder")
        report = await take_one(opened, call, Order(1, 1, 1, listing))
        assert report.outcome is Outcome.DONE, report.error
        got = await content.get(opened.blobs, report.result.value.digest)
        assert json.loads(got) == {"joined": "one two", "values": ["x" * INLINE_BYTES] * 2}


@pytest.mark.parametrize(
    ("name", "outcome", "error_class", "words"),
    [
        ("crash.tif", Outcome.CRASHED, "crash", "SIGSEGV"),
        ("exit.tif", Outcome.CRASHED, "crash", "exit code 7"),
        ("memory.tif", Outcome.OUT_OF_MEMORY, "out_of_memory", "400 MB"),
        ("reject.tif", Outcome.REJECTED, "never", "never works"),
        ("bug.tif", Outcome.ERRED, "step_error", "KeyError"),
        ("hang.tif", Outcome.TIMED_OUT, "timeout", "1 s"),
        ("stall.tif", Outcome.TIMED_OUT, "stalled", "after 1 of 3"),
        ("nonsense.tif", Outcome.REJECTED, "bad_result", "returned a str"),
    ],
)
async def test_every_bad_end_is_the_one_that_a_worker_has(name, outcome, error_class, words, pool):
    stall = 0.5 if "stall" in name else 0.0
    call = StepCall(
        step="misbehave",
        version=1,
        timeout_seconds=1.0 if "hang" in name else 60.0,
        memory_mb=400,
        stall_seconds=stall,
    )
    async with pool(step_modules=MODULES) as opened:
        report = await take_one(opened, call, Order(1, 1, 1, file(name)))
        assert (report.outcome, report.error_class) == (outcome, error_class), report
        assert words in report.error
        after = await take_one(opened, call, Order(1, 2, 1, file("good.tif")))
        assert after.outcome is Outcome.DONE


async def test_a_large_order_in_the_sandbox_waits_for_memory_like_any_other(pool):
    call = StepCall(step="weighty", version=1, memory_mb=4096)
    async with pool(workers=2, step_modules=MODULES, memory_mb=1200) as opened:
        orders = [Order(1, number, 1, file(f"slow{number}", size=600 << 20)) for number in range(4)]
        await opened.compute.submit(call, orders)
        reports = await opened.take_reports(4)
        assert [one.outcome for one in reports] == [Outcome.DONE] * 4
        spans = sorted((one.started_at, one.started_at + one.seconds) for one in reports)
        assert all(end <= begin + 0.05 for (_, end), (begin, _) in pairwise(spans))


async def test_another_decoder_is_started_for_what_a_step_reads_elsewhere(tmp_path, pool):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "data").write_text(folder.name, "utf-8")
    async with pool(step_modules=MODULES) as opened:
        source = await kept(opened, b"an input")

        async def read(*files, places, **more):
            options = {"files": [str(one / "data") for one in files], "places": [str(one) for one in places]}
            call = StepCall(step="read_places", version=1, options=options | more)
            return await take_one(opened, call, Order(1, 1, 1, source))

        assert (await read(first, places=[first])).result.value.data == ["first"]
        assert (await read(second, places=[first])).error_class == "sandbox_violation"
        assert (await read(second, places=[second])).result.value.data == ["second"]
        # With these options it needs more than a sandbox gives.
        assert (await read(second, places=[], programs=True)).result.value.data == ["second"]


async def test_folders_of_decoders_are_empty_when_their_worker_has_ended(tmp_path, pool):
    async with pool(step_modules=MODULES) as opened:
        await take_one(opened, StepCall(step="copy", version=1), Order(1, 1, 1, await kept(opened, b"x")))
        assert any((tmp_path / "scratch").iterdir())
        await opened.left_over()
        assert list((tmp_path / "scratch").iterdir()) == []
