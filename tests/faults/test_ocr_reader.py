"""Worker processes that read pictures: a crash, a hang or nonsense costs its own picture and no other."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from quire.assembly import picture_reading
from quire.model.errors import QuireError, Reject, Retry, Unavailable
from quire.ocr.port import PictureWish
from quire.settings import load

pytestmark = pytest.mark.slow


@asynccontextmanager
async def reading(folder, monkeypatch, **overrides):
    monkeypatch.setattr(picture_reading, "STEP_MODULES", ("tests.processes.ocr_steps",))
    given = {"home": str(folder), "ocr.workers": "2", "sandbox": "off"} | overrides
    settings = load(environment={}, folder=folder, overrides=given).settings
    scratch = folder / "scratch"
    scratch.mkdir()
    async with picture_reading.open_reader(settings, scratch) as reader:
        yield reader.reader, scratch


async def read(opened, said):
    reader, scratch = opened
    path = scratch / f"picture-{abs(hash(said))}"
    await asyncio.to_thread(path.write_text, said)
    return await reader.read(path, PictureWish())


async def refusal(opened, said):
    with pytest.raises(QuireError) as caught:
        await read(opened, said)
    return type(caught.value), str(caught.value.code)


async def test_one_bad_picture_costs_no_other(tmp_path, monkeypatch):
    async with reading(tmp_path, monkeypatch, **{"ocr.picture_seconds": "2"}) as opened:
        outcomes = await asyncio.gather(
            refusal(opened, "crash"),
            refusal(opened, "hang"),
            refusal(opened, "refuse unsupported_media"),
            refusal(opened, "refuse truncated"),
            refusal(opened, "refuse missing_tool"),
            refusal(opened, "try again"),
            refusal(opened, "nothing"),
            read(opened, f"crash once {tmp_path / 'mark'}"),
            *(read(opened, f"page {number}") for number in range(5)),
        )
    assert outcomes[:7] == [
        (Retry, "ocr_engine_error"),
        (Reject, "ocr_engine_error"),
        (Reject, "unsupported_media"),
        (Reject, "unsupported_media"),
        (Retry, "internal_error"),
        (Retry, "ocr_engine_error"),
        (Retry, "internal_error"),
    ]
    assert outcomes[7].is_valid  # the second try has read it
    assert [one.text for one in outcomes[8:]] == [f"page {number}" for number in range(5)]


async def test_no_text_stays_in_the_folder(tmp_path, monkeypatch):
    long = "x" * 50_000  # a value of this size lies in the store
    async with reading(tmp_path, monkeypatch) as opened:
        first, second = await asyncio.gather(read(opened, long), read(opened, long + "y"))
        assert (len(first.text), len(second.text)) == (50_000, 50_001)
        left = [path for path in (opened[1]).rglob("*") if path.is_file() and path.stat().st_size > 40_000]
        assert sorted(path.name.split("-")[0] for path in left) == ["picture", "picture"]


async def test_who_no_longer_waits_frees_the_place(tmp_path, monkeypatch):
    async with reading(tmp_path, monkeypatch) as opened:
        waiting = [asyncio.ensure_future(read(opened, f"hang {number}")) for number in range(2)]
        assert (await asyncio.wait(waiting, timeout=0.5))[0] == set()
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert (await read(opened, "page")).text == "page"


async def test_a_machine_that_starts_no_process_says_so_instead_of_blaming_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(picture_reading, "WORKER_COMMAND", ("/bin/false",))
    async with reading(tmp_path, monkeypatch) as opened:
        assert await refusal(opened, "page") == (Unavailable, "reader_unavailable")
        assert await refusal(opened, "page") == (Unavailable, "reader_unavailable")
        assert opened[0].is_broken
