"""What only the local store promises: nothing outside its root, durable before it answers, tidy after."""

import asyncio
import errno
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quire.blobs.labels import Labels
from quire.blobs.local import LocalBlobs
from quire.blobs.local.labels import LabelFiles
from quire.blobs.port import IfAbsent, IfVersion
from quire.model.errors import Misconfigured, Missing, Reject, Retry, Stale

SEGMENTS = st.one_of(
    st.text(min_size=1, max_size=30),
    st.sampled_from(
        ["..", ".", "", "~", ".tmp", ".meta", "etc", "a", "\\..\\..", "%2e%2e", "\ud800", "C:", "//"]
    ),
)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "outside" / "root"


@pytest.fixture
def blobs(root):
    return LocalBlobs(root)


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(SEGMENTS, min_size=1, max_size=6).map("/".join), st.binary(max_size=50))
def test_no_key_escapes_the_root_and_good_ones_round_trip(root, key, body):
    async def run():
        blobs = LocalBlobs(root)
        try:
            await blobs.put(key, body)
        except Reject:
            return
        assert await blobs.get(key) == body
        assert [stored.key async for stored in blobs.list()] == [key]
        assert blobs.local_path(key) == root / key
        assert (root / key).resolve().is_relative_to(root)
        await blobs.delete(key)

    asyncio.run(run())
    outside = {path for path in everything(root.parent) if not path.startswith("root/.locks/")}
    assert outside == set()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sets(
        st.lists(st.sampled_from(["a", "a.b", "a-b", "b", "é", "A", "0"]), min_size=1, max_size=3).map(tuple)
    )
)
def test_any_set_of_keys_is_listed_in_order_of_bytes(tmp_path_factory, paths):
    keys = {"/".join([*path, "leaf"]) for path in paths}

    async def run():
        blobs = LocalBlobs(tmp_path_factory.mktemp("root"))
        for key in keys:
            await blobs.put(key, b"")
        return [stored.key async for stored in blobs.list()]

    assert asyncio.run(run()) == sorted(keys, key=str.encode)


async def test_symlinks_inside_the_root_are_not_followed(blobs, root):
    secret = root.parent / "secret"
    secret.mkdir()
    (secret / "file").write_bytes(b"secret")
    (root / "folder").symlink_to(secret)
    (root / "file").symlink_to(secret / "file")
    (root / "dangling").symlink_to(secret / "new")
    for key in ("folder/file", "folder/new", "file", "dangling"):
        calls = [
            lambda key=key: blobs.get(key),
            lambda key=key: blobs.head(key),
            lambda key=key: blobs.put(key, b"x"),
            lambda key=key: blobs.put(key, b"x", metadata={"a": "b"}, condition=IfAbsent()),
            lambda key=key: blobs.delete(key),
            lambda key=key: anext(aiter(blobs.stream(key))),
        ]
        for call in calls:
            with pytest.raises(Reject) as refused:
                await call()
            assert refused.value.code == "unsafe_path"
        with pytest.raises(Reject):
            blobs.local_path(key)
    assert [stored.key async for stored in blobs.list()] == []
    assert [path.name for path in secret.iterdir()] == ["file"]
    assert (secret / "file").read_bytes() == b"secret"


async def test_the_stores_own_folders_may_not_be_links_either(blobs, root):
    (root / ".tmp").rmdir()
    (root / ".tmp").symlink_to(root.parent)
    with pytest.raises(Reject):
        await blobs.put("key", b"x")


async def test_a_pipe_in_the_folder_does_not_hang_a_reader(blobs, root):
    os.mkfifo(root / "pipe")
    with pytest.raises(Reject):
        await blobs.get("pipe")


async def test_a_key_cannot_be_blob_and_folder(blobs):
    await blobs.put("a/b", b"x")
    for key, condition in (("a", None), ("a", IfAbsent()), ("a/b/c", None), ("a/b/c", IfAbsent())):
        with pytest.raises(Reject) as refused:
            await blobs.put(key, b"y", condition=condition)
        assert refused.value.code == "bad_key"
    assert [stored.key async for stored in blobs.list()] == ["a/b"]


async def test_a_put_syncs_the_file_before_and_the_folder_after_it_is_seen(blobs, root, monkeypatch):
    await blobs.put("f/first", b"")
    happened = []
    for name in ("fsync", "link", "replace"):
        real = getattr(os, name)

        def noted(*args, _real=real, _name=name, **kwargs):
            folder = _name == "fsync" and stat.S_ISDIR(os.fstat(args[0]).st_mode)
            happened.append("fsync folder" if folder else _name)
            return _real(*args, **kwargs)

        monkeypatch.setattr(os, name, noted)
    await blobs.put("f/second", b"x", condition=IfAbsent())
    # Long ago, so that the next version is later by itself; within one tick it would be stamped once more.
    os.utime(root / "f" / "second", ns=(1, 1))
    await blobs.put("f/second", b"y")
    one_put = ["fsync", "link", "fsync folder"]
    assert happened == [*one_put, "fsync", "replace", "fsync folder"]
    happened.clear()
    await blobs.put("new/folder", b"x", condition=IfAbsent())
    assert happened == ["fsync", "fsync folder", "link", "fsync folder"]


async def test_versions_grow_also_when_the_clock_goes_back(blobs, root):
    first = await blobs.put("key", b"x")
    future = time.time_ns() + 10**15
    os.utime(root / "key", ns=(future, future))
    seen = await blobs.head("key")
    assert seen.version != first.version
    later = await blobs.put("key", b"x", condition=IfVersion(seen.version))
    assert later.modified_at >= seen.modified_at
    assert int(later.version.split("-")[0], 16) > future


async def test_equal_bytes_written_again_are_another_version(blobs):
    versions = [(await blobs.put("key", b"same")).version for _ in range(50)]
    assert len(set(versions)) == 50
    numbers = [int(version.split("-")[0], 16) for version in versions]
    assert numbers == sorted(numbers)


async def test_old_labels_are_tidied_away(blobs, root):
    for number in range(3):
        await blobs.put("a/key", b"x", metadata={"n": str(number)})
    assert len(everything(root / ".meta")) == 1
    await blobs.put("a/key", b"x")
    assert everything(root / ".meta") == set()
    await blobs.put("a/key", b"x", content_type="a/b")
    with pytest.raises(Stale):
        await blobs.put("a/key", b"x", content_type="a/b", condition=IfAbsent())
    await blobs.delete("a/key")
    assert list((root / ".meta").iterdir()) == []
    assert not (root / "a").exists()


async def test_a_reader_sees_bytes_and_labels_of_the_same_version(blobs, monkeypatch):
    await blobs.put("key", b"1", metadata={"n": "1"})
    real = LabelFiles.read
    moments = [lambda: blobs._files.put("key", b"22", Labels(metadata={"n": "2"}), None)]

    def overtaken(self, key, version):
        if moments:
            moments.pop()()  # a writer comes between the look at the blob and the look at its labels
        return real(self, key, version)

    monkeypatch.setattr(LabelFiles, "read", overtaken)
    head = await blobs.head("key")
    assert (head.size, head.metadata) == (2, {"n": "2"})


async def test_a_stream_keeps_to_the_version_it_began_with(blobs):
    await blobs.put("key", b"a" * (3 << 20))
    stream = aiter(blobs.stream("key"))
    read = await anext(stream)
    await blobs.put("key", b"b")
    async for piece in stream:
        read += piece
    assert read == b"a" * (3 << 20)


async def test_a_stream_left_early_closes_its_file(blobs):
    await blobs.put("key", b"a" * (3 << 20))
    before = open_files()
    stream = aiter(blobs.stream("key"))
    await anext(stream)
    assert open_files() == before + 1
    await stream.aclose()
    assert open_files() == before


async def test_a_cancelled_upload_leaves_nothing(blobs, root):
    started, never = asyncio.Event(), asyncio.Event()

    async def slow():
        yield b"x" * (2 << 20)
        started.set()
        await never.wait()
        yield b""

    before = open_files()
    upload = asyncio.create_task(blobs.put("key", slow()))
    await started.wait()
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert everything(root) - {".locks"} == set()
    assert open_files() == before


@pytest.mark.parametrize(
    ("number", "error", "code"),
    [
        (errno.ENOSPC, Retry, "storage_full"),
        (errno.EDQUOT, Retry, "storage_full"),
        (errno.EIO, Retry, "storage_error"),
        (errno.EACCES, Misconfigured, "storage_denied"),
        (errno.EROFS, Misconfigured, "storage_denied"),
    ],
)
@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
async def test_a_failing_disk_is_reported_with_advice_and_leaves_nothing(
    blobs, root, monkeypatch, number, error, code, call
):
    await blobs.put("key", b"before", metadata={"a": "b"})
    labels = everything(root / ".meta")

    def fail(*_args, **_kwargs):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, call, fail)
        for body in (b"after", source(b"after")):
            with pytest.raises(error) as told:
                await blobs.put("key", body, metadata={"a": "c"})
            assert told.value.code == code
            assert isinstance(told.value.__cause__, OSError)
            assert len(str(told.value)) > 60
    assert await blobs.get("key") == b"before"
    assert (await blobs.head("key")).metadata == {"a": "b"}
    assert list((root / ".tmp").iterdir()) == []
    assert everything(root / ".meta") == labels


async def source(*parts):
    for part in parts:
        yield part


async def test_a_file_system_with_coarse_times_is_refused(blobs, monkeypatch):
    real = os.utime
    monkeypatch.setattr(os, "utime", lambda file, ns: real(file, ns=(ns[0] // 10**9 * 10**9,) * 2))
    with pytest.raises(Misconfigured, match="nanosecond"):
        await blobs.put("key", b"x")


def test_a_root_that_cannot_be_made_is_a_setting_to_change(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((Misconfigured, Reject)):
        LocalBlobs(tmp_path / "file" / "root")


async def test_sweep_removes_old_leftovers_only(blobs, root):
    await blobs.put("a/kept", b"x", metadata={"a": "b"})
    (root / ".tmp" / "old").write_bytes(b"half")
    (root / ".tmp" / "new").write_bytes(b"half")
    (root / ".meta" / "a" / "gone").mkdir(parents=True)
    (root / ".meta" / "a" / "gone" / "1-1.json").write_bytes(b"{}")
    now = time.time()
    for path in (root / ".tmp" / "old", *(root / ".meta").rglob("*.json")):
        os.utime(path, (now - 7200, now - 7200))
    assert await blobs.sweep(older_than_seconds=3600, now=now) == 2
    assert [path.name for path in (root / ".tmp").iterdir()] == ["new"]
    assert (await blobs.head("a/kept")).metadata == {"a": "b"}
    assert not (root / ".meta" / "a" / "gone").exists()
    assert await blobs.sweep(older_than_seconds=3600, now=now) == 0


async def test_names_that_are_not_utf8_are_not_listed(blobs, root):
    Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe")).write_bytes(b"")
    await blobs.put("key", b"")
    assert [stored.key async for stored in blobs.list()] == ["key"]


async def test_folders_come_and_go_under_rivals(blobs):
    async def churn(name):
        for _ in range(40):
            await blobs.put(f"deep/er/{name}", b"x", metadata={"by": name})
            assert (await blobs.head(f"deep/er/{name}")).metadata == {"by": name}
            await blobs.delete(f"deep/er/{name}")

    await asyncio.gather(*(churn(name) for name in "abcd"))
    assert [stored.key async for stored in blobs.list()] == []


COUNTER = """
import asyncio, sys
from pathlib import Path
from quire.blobs.labels import Labels
from quire.blobs.local import LocalBlobs
from quire.blobs.local.labels import LabelFiles
from quire.blobs.port import IfVersion
from quire.model.errors import Stale

async def main():
    blobs, added = LocalBlobs(Path(sys.argv[1])), 0
    while added < 60:
        seen = await blobs.head("count")
        body = await blobs.get("count")
        try:
            await blobs.put("count", b"%d" % (int(body) + 1), condition=IfVersion(seen.version))
        except Stale:
            continue
        added += 1

asyncio.run(main())
"""


async def test_no_swap_is_lost_between_processes(blobs, root):
    await blobs.put("count", b"0")
    command = [sys.executable, "-c", COUNTER, str(root)]
    rivals = [subprocess.Popen(command) for _ in range(3)]
    assert [rival.wait(timeout=60) for rival in rivals] == [0, 0, 0]
    assert await blobs.get("count") == b"180"


async def test_the_file_handed_out_cannot_be_written_to_by_mistake(blobs):
    await blobs.put("key", b"x")
    assert blobs.local_path("key").stat().st_mode & 0o222 == 0


async def test_missing_says_which(blobs):
    with pytest.raises(Missing, match="'a/b'"):
        await blobs.get("a/b")
