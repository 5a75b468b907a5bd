"""Putting PDFs in: what is stored, queued, indexed, left alone and told, in every kind of store."""

import asyncio
import json
import os
import stat
import subprocess
from datetime import timedelta

import httpx
import obstore
import pytest
from msgspec import structs
from tests.situations.libraries import (
    CountingObjects,
    digest,
    local_library,
    memory_library,
    pdf,
    pointer,
    s3_library,
)

from quire.blobs.labels import check_labels
from quire.library import metadata
from quire.library.ingest import run as ingestion
from quire.library.ingest import upload
from quire.library.ingest.pdf_search import FoundPdf
from quire.library.ingest.run import IngestOptions
from quire.library.manifest.repair import rebuild_manifest
from quire.library.manifest.store import LibraryManifest
from quire.library.metadata import repair_metadata
from quire.library.protocol import layout, operator
from quire.library.protocol.lifecycle import JobCandidate, claim, fail
from quire.library.protocol.operator import JobStatus
from quire.model.errors import Misconfigured, Missing, Reject, Retry, Stale

ONE, TWO = pdf("one"), pdf("two")


@pytest.fixture(params=["memory", "local", pytest.param("s3", marks=pytest.mark.service)])
def context(request, tmp_path):
    if request.param == "memory":
        return memory_library()
    if request.param == "local":
        return local_library(tmp_path / "store")
    return s3_library(request.getfixturevalue("s3_server"), f"ingest/{tmp_path.name}")


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "library"
    _write(root, "DnD/Rules v2.pdf", ONE)
    _write(root, "two.pdf", TWO)
    return root


def _write(root, relative, body):
    path = root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    return path


async def _standing(context, body):
    return (await context.perform(operator.inspect_job(digest(body)))).status


async def _keys(context, place):
    return [seen.key async for page in context.objects.pages(place) for seen in page]


async def _snapshot(context):
    found = {}
    for place in ("queue", "store"):
        found |= {key: await context.blobs.get(key) for key in await _keys(context, place)}
    view = await LibraryManifest(context).read()
    return found, {hit.hash: (set(hit.entry.paths), hit.entry.size) for hit in view.hits()}


async def test_a_folder_is_stored_queued_and_indexed(context, folder):
    _write(folder, "copy/of two.PDF", TWO)
    _write(folder, "broken.pdf", b"hello")
    _write(folder, "notes.txt", b"hello")
    seen = []
    tally = await ingestion.ingest(
        context, [folder], IngestOptions(tier="2_high"), lambda now: seen.append(now.found)
    )
    assert (tally.found, tally.uploaded, tally.queued, tally.skipped) == (3, 2, 2, 1)
    assert (tally.duplicates, tally.others, tally.failed, tally.indexed) == (1, 1, 1, 2)
    assert [(one.path, one.code) for one in tally.failures] == [("broken.pdf", "not_a_pdf")]
    assert tally.uploaded_bytes == len(ONE) + len(TWO)
    assert tally.problems == []
    assert len(seen) == 4
    for body in (ONE, TWO):
        assert await context.blobs.get(layout.raw(digest(body))) == body
        assert await context.blobs.get(layout.todo("2_high", digest(body))) == b""
    view = await LibraryManifest(context).read()
    assert set(view.get(digest(TWO)).paths) == {"two.pdf", "copy/of two.PDF"}
    entry = view.get(digest(ONE))
    assert (entry.paths, entry.tags) == (["DnD/Rules v2.pdf"], ["DnD", "Rules v2"])
    assert (entry.size, entry.source) == (len(ONE), "library")


async def test_published_tools_see_the_index_of_a_small_library_at_once(context, folder):
    await ingestion.ingest(context, [folder])
    whole = json.loads((await context.objects.read(layout.MANIFEST)).body)
    assert set(whole["entries"]) == {digest(ONE), digest(TWO)}


async def test_again_changes_nothing(context, folder):
    await ingestion.ingest(context, [folder])
    before = await _snapshot(context)
    tally = await ingestion.ingest(context, [folder])
    assert (tally.found, tally.uploaded, tally.queued, tally.skipped) == (2, 0, 0, 2)
    assert tally.standings == {"queued": 2}
    assert tally.indexed == 0
    assert await _snapshot(context) == before


async def test_a_known_document_gets_its_new_path(context, folder):
    await ingestion.ingest(context, [folder])
    _write(folder, "elsewhere/same.pdf", ONE)
    tally = await ingestion.ingest(context, [folder / "elsewhere", folder / "elsewhere" / "same.pdf"])
    assert (tally.uploaded, tally.queued, tally.indexed) == (0, 0, 1)
    paths = (await LibraryManifest(context).read()).get(digest(ONE)).paths
    assert set(paths) == {"DnD/Rules v2.pdf", "same.pdf"}


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("place", ["out", "processing", "failed", "dead", "state"])
async def test_what_is_somewhere_already_is_left_alone(context, folder, place, listed, monkeypatch):
    if listed:
        monkeypatch.setattr(ingestion, "LISTED_FROM", 1)
    ident = digest(ONE)
    if place == "state":
        actor = context.actor("worker")
        held = await context.perform(claim(JobCandidate(id=ident, tier="3_normal"), actor))
        await context.objects.delete([layout.processing(ident)])
        assert held is not None
    else:
        await context.objects.put(getattr(layout, place)(ident), b"{}")
    tally = await ingestion.ingest(context, [folder])
    assert (tally.uploaded, tally.queued, tally.skipped) == (1, 1, 1)
    assert [key for key in await _keys(context, layout.TODO) if ident in key] == []
    assert [key for key in await _keys(context, layout.RAW) if ident in key] == []
    assert ident in await LibraryManifest(context).read()


@pytest.mark.parametrize("listed", [False, True])
async def test_what_is_known_but_neither_waits_nor_is_done_waits_again(context, folder, listed, monkeypatch):
    if listed:
        monkeypatch.setattr(ingestion, "LISTED_FROM", 1)
    await ingestion.ingest(context, [folder])
    await context.objects.delete([layout.todo("3_normal", digest(ONE))])
    assert await _standing(context, ONE) is JobStatus.RAW
    tally = await ingestion.ingest(context, [folder])
    assert (tally.uploaded, tally.queued, tally.skipped) == (0, 1, 1)
    assert await _standing(context, ONE) is JobStatus.QUEUED


async def test_a_job_that_failed_is_the_janitors(context, folder):
    await ingestion.ingest(context, [folder])
    actor = context.actor("worker")
    held = await context.perform(claim(JobCandidate(id=digest(ONE), tier="3_normal"), actor))
    await context.perform(fail(held, actor, "no"))
    tally = await ingestion.ingest(context, [folder], IngestOptions(tier="1_critical"))
    assert tally.standings == {"failed": 1, "queued": 1}
    assert await _keys(context, f"{layout.TODO}/1_critical") == []


async def test_a_dry_run_writes_nothing_anywhere(context, folder):
    before = os.listxattr(folder / "two.pdf")
    home = folder.parent / "home"
    tally = await ingestion.ingest(
        context, [folder], IngestOptions(dry_run=True, recovery=home, sums=home / "sums.db", scratch=home)
    )
    assert not home.exists()
    assert (tally.found, tally.uploaded, tally.queued, tally.indexed) == (2, 2, 2, 2)
    assert await _snapshot(context) == ({}, {})
    assert os.listxattr(folder / "two.pdf") == before


async def test_many_are_decided_by_listings_and_not_by_questions(tmp_path):
    for number in range(220):
        _write(tmp_path / "many", f"{number}.pdf", pdf(str(number)))
    context = memory_library()
    counting = CountingObjects(context.objects)
    tally = await ingestion.ingest(structs.replace(context, objects=counting), [tmp_path / "many"])
    assert tally.queued == 220
    assert counting.counts["list"] <= 8
    assert counting.counts["head object"] + counting.counts["read"] <= 8


async def test_large_documents_go_up_in_pieces(context, tmp_path, monkeypatch):
    monkeypatch.setattr(upload, "SMALL_BYTES", 100)
    body = pdf("x" * 3_000_000)
    _write(tmp_path / "in", "large.pdf", body)
    tally = await ingestion.ingest(context, [tmp_path / "in"])
    assert (tally.uploaded, tally.queued) == (1, 1)
    assert await context.blobs.get(layout.raw(digest(body))) == body
    await context.objects.delete([layout.todo("3_normal", digest(body))])
    assert (await ingestion.ingest(context, [tmp_path / "in"])).uploaded == 0


@pytest.mark.parametrize("large", [False, True])
async def test_bytes_with_another_hash_are_never_stored(context, tmp_path, large, monkeypatch):
    if large:
        monkeypatch.setattr(upload, "SMALL_BYTES", 10)
    path = _write(tmp_path / "in", "a.pdf", ONE)
    _write(tmp_path / "in", "b.pdf", TWO)
    real = upload.upload

    async def hasty(blobs, ident, found, source):
        if found.name == "a.pdf":
            path.write_bytes(os.urandom(len(ONE)))  # at every attempt
        return await real(blobs, ident, found, source)

    monkeypatch.setattr(upload, "upload", hasty)
    tally = await ingestion.ingest(context, [tmp_path / "in"])
    assert [(one.path, one.code) for one in tally.failures] == [("a.pdf", "hash_mismatch")]
    assert await _keys(context, layout.RAW) == [layout.raw(digest(TWO))]
    assert await _keys(context, layout.TODO) == [layout.todo("3_normal", digest(TWO))]
    assert set((await LibraryManifest(context).read()).entries) == {digest(TWO)}


async def test_a_file_that_changes_once_is_taken_as_it_is_then(tmp_path, monkeypatch):
    context = memory_library()
    path = _write(tmp_path / "in", "a.pdf", ONE)
    real, times = upload.upload, []

    async def hasty(*arguments):
        times.append(1)
        if len(times) == 1:
            path.write_bytes(TWO)
        return await real(*arguments)

    monkeypatch.setattr(upload, "upload", hasty)
    tally = await ingestion.ingest(context, [tmp_path / "in"])
    assert (tally.failed, tally.uploaded, tally.queued) == (0, 1, 1)
    assert await context.blobs.get(layout.raw(digest(TWO))) == TWO


async def test_two_ingestors_at_once_make_one_library(context, folder, tmp_path):
    for number in range(30):
        _write(folder, f"{number}.pdf", pdf(str(number)))
        _write(tmp_path / "other", f"o{number}.pdf", pdf(str(number + 15)))
    one, two = await asyncio.gather(
        ingestion.ingest(context, [folder]),
        ingestion.ingest(context, [tmp_path / "other"], IngestOptions(at_once=3)),
    )
    assert one.failed == two.failed == 0
    assert one.problems == two.problems == []
    assert one.queued + two.queued == 47
    assert len(await _keys(context, layout.RAW)) == len(await _keys(context, layout.TODO)) == 47
    view = await LibraryManifest(context).read()
    assert len(view) == 47
    assert set(view.get(digest(pdf("20"))).paths) == {"20.pdf", "o5.pdf"}


async def test_what_is_told_with_a_source(context, folder):
    name = "100% Bücher\n+ 'x'.pdf"
    _write(folder, f"Spiele ü/{name}", pdf("odd"))
    await ingestion.ingest(context, [folder])
    stored = await context.blobs.head(layout.raw(digest(pdf("odd"))))
    told = metadata.decode_metadata(stored.metadata)
    assert (told.name, told.size) == (name, len(pdf("odd")))
    assert told.tags == ["Spiele ü", name.removesuffix(".pdf")]


async def test_names_as_long_as_a_disk_allows_them_fit(context, folder):
    name = '"' * 251 + ".pdf"
    relative = "/".join(["ü" * 120] * 8 + [name])
    _write(folder, relative, pdf("long"))
    tally = await ingestion.ingest(context, [folder])
    assert tally.failures == []
    told = metadata.decode_metadata((await context.blobs.head(layout.raw(digest(pdf("long"))))).metadata)
    assert told.name == name
    assert (await LibraryManifest(context).read()).get(digest(pdf("long"))).paths == [relative]


async def test_labels_that_a_copy_dropped_are_written_anew(context, folder):
    await ingestion.ingest(context, [folder])
    view = await LibraryManifest(context).read()
    await context.blobs.put(layout.raw(digest(ONE)), ONE)
    await context.blobs.put(layout.raw(digest(pdf("alien"))), pdf("alien"))
    await context.blobs.put(layout.raw("d" * 64), b"damaged")
    view.entries["d" * 64] = view.entries[digest(ONE)]
    would = await repair_metadata(context, view, dry_run=True)
    assert (would.looked_at, would.written, would.unknown) == (4, 2, 1)
    done = await repair_metadata(context, view)
    assert (done.written, done.unknown, done.damaged) == (1, 1, ["d" * 64])
    stored = await context.blobs.head(layout.raw(digest(ONE)))
    assert metadata.decode_metadata(stored.metadata) == metadata.SourceMetadata(
        name="Rules v2.pdf", tags=["DnD", "Rules v2"], size=len(ONE)
    )
    assert stored.content_type == metadata.CONTENT_TYPE
    assert await context.blobs.get(layout.raw(digest(ONE))) == ONE
    assert await context.blobs.get(layout.raw("d" * 64)) == b"damaged"
    assert (await repair_metadata(context, view, [digest(ONE)])).written == 0
    assert (await repair_metadata(context, view, [digest(ONE)], force=True)).written == 1
    with pytest.raises(Missing):
        await repair_metadata(context, view, ["e" * 64])


@pytest.mark.service
async def test_a_large_upload_that_goes_wrong_at_its_end_leaves_nothing(s3_server, tmp_path):
    context = s3_library(s3_server, f"wrong/{tmp_path.name}")
    path = _write(tmp_path, "large.pdf", pdf("x" * (20 << 20)))
    found = FoundPdf(path=path, relative="large.pdf", source="in", size=path.stat().st_size)
    with pytest.raises(Stale):
        await upload.upload(context.blobs, "a" * 64, found, path)
    assert await _keys(context, layout.RAW) == []
    ident = digest(path.read_bytes())
    assert await upload.upload(context.blobs, ident, found, path) == found.size
    assert (await context.blobs.head(layout.raw(ident))).size == found.size


@pytest.mark.service
async def test_the_very_bytes_on_the_wire_are_those_of_the_published_tools(s3_server, tmp_path):
    context = s3_library(s3_server, f"wire/{tmp_path.name}")
    path = _write(tmp_path / "in", "DnD [5e]/Rüles v2.pdf", ONE)
    await ingestion.ingest(context, [tmp_path / "in"])
    raw = layout.raw(digest(path.read_bytes()))
    keys = [f"wire/{tmp_path.name}/{key}" for key in (raw, layout.todo("3_normal", digest(ONE)))]
    urls = obstore.sign(context.blobs._store, "GET", keys, timedelta(seconds=60))
    async with httpx.AsyncClient() as client:
        answer, marker = [await client.get(url) for url in urls]
    said = {name.lower(): value for name, value in answer.headers.raw}
    assert said[b"x-amz-meta-original-name"] == b"R%C3%BCles%20v2.pdf"
    assert said[b"x-amz-meta-tags"] == b"%5B%22DnD%20%5B5e%5D%22%2C%20%22R%5Cu00fcles%20v2%22%5D"
    assert said[b"x-amz-meta-size"] == str(len(ONE)).encode()
    assert said[b"content-type"] == b"binary/octet-stream"
    assert answer.content == ONE
    assert marker.content == b""
    assert marker.headers["content-type"] == "binary/octet-stream"


@pytest.mark.service
@pytest.mark.parametrize(
    ("name", "tags"),
    [("Rules v2.pdf", '["DnD", "x y"]'), ("Rules%20v2.pdf", "%5B%22DnD%22%2C%20%22x%20y%22%5D")],
)
async def test_sources_of_published_tools_are_understood(s3_server, tmp_path, name, tags):
    context = s3_library(s3_server, f"theirs/{tmp_path.name}")
    attributes = {"original-name": name, "tags": tags, "size": "4"}
    key = f"theirs/{tmp_path.name}/{layout.raw('a' * 64)}"
    await context.blobs._store.put_async(key, b"%PDF", attributes=attributes)
    await rebuild_manifest(LibraryManifest(context))
    entry = (await LibraryManifest(context).read()).get("a" * 64)
    assert (entry.paths, entry.tags, entry.size) == (["Rules v2.pdf"], ["DnD", "x y"], 4)


class Failing:
    """A store that fails for some keys, for as long as it is told to."""

    def __init__(self, inner, error, matching):
        self._inner, self.error, self._matching = inner, error, matching

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def put(self, key, *arguments, **more):
        if self._matching in key and self.error is not None:
            raise self.error
        return await self._inner.put(key, *arguments, **more)

    async def create(self, key, body):
        if self._matching in key and self.error is not None:
            raise self.error
        return await self._inner.create(key, body)


async def test_one_that_fails_does_not_stop_the_rest(folder):
    context = memory_library()
    blobs = Failing(context.blobs, Retry("busy"), digest(ONE))
    tally = await ingestion.ingest(structs.replace(context, blobs=blobs), [folder])
    assert (tally.queued, tally.failed) == (1, 1)
    assert tally.failures[0].path == "DnD/Rules v2.pdf"
    assert set((await LibraryManifest(context).read()).entries) == {digest(TWO)}
    assert (await ingestion.ingest(context, [folder])).queued == 1


async def test_a_store_that_is_gone_ends_the_run(tmp_path):
    for number in range(40):
        _write(tmp_path / "in", f"{number}.pdf", pdf(str(number)))
    context = memory_library()
    blobs = Failing(context.blobs, Retry("gone"), "store/")
    with pytest.raises(Retry, match="gone"):
        await ingestion.ingest(structs.replace(context, blobs=blobs), [tmp_path / "in"])
    blobs.error = Misconfigured("no such bucket")
    with pytest.raises(Misconfigured):
        await ingestion.ingest(structs.replace(context, blobs=blobs), [tmp_path / "in"])


async def test_an_index_that_cannot_be_written_is_kept_on_this_disk(folder, tmp_path):
    context = memory_library()
    objects = Failing(context.objects, Retry("busy"), "registry/")
    failing = structs.replace(context, objects=objects)
    options = IngestOptions(recovery=tmp_path / "home")
    tally = await ingestion.ingest(failing, [folder], options)
    assert tally.queued == 2
    assert "saved in" in tally.problems[0]
    assert len(await LibraryManifest(context).read()) == 0
    (saved,) = (tmp_path / "home").iterdir()
    await ingestion.ingest(context, [_write(tmp_path / "x", "three.pdf", pdf("three"))], options)
    assert not saved.exists()
    assert len(await LibraryManifest(context).read()) == 3


async def test_an_unknown_tier_or_source_is_told_before_anything(folder):
    context = memory_library()
    with pytest.raises(Reject) as refused:
        await ingestion.ingest(context, [folder], IngestOptions(tier="9_never"))
    assert refused.value.code == "unknown_tier"
    with pytest.raises(Reject):
        await ingestion.ingest(context, [folder, folder / "nowhere"])
    assert await _snapshot(context) == ({}, {})


class TestGitLfs:
    @pytest.fixture
    def tree(self, tmp_path):
        root = tmp_path / "repo"
        root.mkdir()
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", "init", "-q", str(root)], check=True, env=environment)
        _write(root, "books/one.pdf", pointer(ONE))
        return root

    def _store(self, root, body, ident=None):
        oid = ident or digest(body)
        _write(root, f".git/lfs/objects/{oid[:2]}/{oid[2:4]}/{oid}", body)

    def _program(self, folder, script):
        path = _write(folder, "git-lfs", f"#!/bin/sh\n{script}\n".encode())
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "GIT_LFS_SKIP_SMUDGE": "1"}

    async def test_a_pointer_is_its_file(self, context, tree):
        self._store(tree, ONE)
        before = (tree / "books/one.pdf").read_bytes()
        tally = await ingestion.ingest(context, [tree])
        assert (tally.uploaded, tally.queued, tally.failed) == (1, 1, 0)
        assert await context.blobs.get(layout.raw(digest(ONE))) == ONE
        entry = (await LibraryManifest(context).read()).get(digest(ONE))
        assert (entry.size, entry.paths) == (len(ONE), ["books/one.pdf"])
        assert (tree / "books/one.pdf").read_bytes() == before

    async def test_what_is_done_needs_no_content(self, tree):
        context = memory_library()
        await context.objects.put(layout.out(digest(ONE)), b"zip")
        tally = await ingestion.ingest(context, [tree])
        assert (tally.skipped, tally.failed) == (1, 0)

    async def test_a_copy_that_can_be_read_stands_in_for_one_that_cannot(self, tree):
        _write(tree, "real.pdf", ONE)
        context = memory_library()
        tally = await ingestion.ingest(context, [tree], IngestOptions(environment={"PATH": str(tree)}))
        assert [one.path for one in tally.failures] == ["books/one.pdf"]
        assert (tally.uploaded, tally.queued) == (1, 1)

    async def test_a_damaged_object_is_not_stored(self, context, tree):
        self._store(tree, TWO, digest(ONE))
        tally = await ingestion.ingest(context, [tree])
        assert [one.code for one in tally.failures] == ["hash_mismatch"]
        assert await _snapshot(context) == ({}, {})

    async def test_without_git_lfs_each_file_is_told_and_the_rest_goes_on(self, tree, tmp_path):
        _write(tree, "real.pdf", TWO)
        context = memory_library()
        only_git = tmp_path / "bin"
        only_git.mkdir()
        (only_git / "git").symlink_to("/usr/bin/git")
        for environment in ({"PATH": str(tmp_path)}, {"PATH": str(only_git)}):
            tally = await ingestion.ingest(context, [tree], IngestOptions(environment=environment))
            assert [one.code for one in tally.failures] == ["git_lfs_missing"]
        assert (await ingestion.ingest(context, [tree])).standings == {"queued": 1}
        with pytest.raises(Missing):
            await context.blobs.get(layout.raw(digest(ONE)))

    async def test_what_is_not_there_is_fetched_and_the_work_tree_left_alone(self, context, tree, tmp_path):
        _write(tree, "--help; $(x).pdf", pointer(TWO))
        _write(tmp_path / "remote", digest(ONE), ONE)
        _write(tmp_path / "remote", digest(TWO), TWO)
        environment = self._program(
            tmp_path / "bin",
            f"""[ "$1" = smudge ] && [ "$2" = -- ] && [ "$GIT_LFS_SKIP_SMUDGE" = 0 ] || exit 9
printf '%s\\n' "$3" >> {tmp_path}/asked
exec cat {tmp_path}/remote/$(sed -n 's/^oid sha256://p')""",
        )
        tally = await ingestion.ingest(
            context, [tree], IngestOptions(environment=environment, scratch=tmp_path)
        )
        assert [one.reason for one in tally.failures] == []
        assert tally.uploaded == 2
        assert await context.blobs.get(layout.raw(digest(TWO))) == TWO
        assert set((tmp_path / "asked").read_text().splitlines()) == {"one.pdf", "--help; $(x).pdf"}
        assert (tree / "books/one.pdf").read_bytes() == pointer(ONE)
        assert not list(tmp_path.glob("quire-lfs-*"))

    @pytest.mark.parametrize(
        ("script", "code"),
        [
            ("cat >/dev/null; echo 'batch response: 404' >&2; exit 2", "lfs_unavailable"),
            ("cat", "hash_mismatch"),  # the pointer itself, as it is when a filter leaves it out
            ("kill -9 $$", "lfs_unavailable"),
        ],
    )
    async def test_a_fetch_that_fails_is_told(self, tree, tmp_path, script, code):
        context = memory_library()
        environment = self._program(tmp_path / "bin", script)
        tally = await ingestion.ingest(context, [tree], IngestOptions(environment=environment))
        assert [one.code for one in tally.failures] == [code]
        assert await _snapshot(context) == ({}, {})


def test_labels_are_encoded_without_exceptions():
    from quire.blobs.labels import decode, encode

    odd = "!#$&'()*+,/:;=?@[] ü%"
    assert set(encode(odd)) <= set("%0123456789ABCDEF")
    assert decode(encode(odd)) == odd
    assert check_labels(None, {"a": odd}).metadata == {"a": odd}
