"""The pictures of one job: one result each, in order, whatever happens to one of them."""

import asyncio
import stat

import pytest
from tests.situations.ocr_service import SayingReader, keep_pictures, reading_of, refs_of

from quire.model.envelopes import MAX_TEXT_BYTES, ImageRef
from quire.model.errors import Unavailable
from quire.ocr.image_jobs import InlineImage, read_images
from quire.ocr.port import PictureWish

EN = PictureWish()


@pytest.fixture
def pictures(tmp_path):
    keep_pictures(
        tmp_path, a="Pancakes", b="two eggs", doubt="doubtful xx", crash="crash", bug="bug", pdf="broken"
    )
    return tmp_path


async def texts(root, *values, reader=None, language="en"):
    return await read_images(
        reading_of(root, reader or SayingReader()), refs_of(*values), PictureWish(language=language)
    )


def codes(results):
    return [None if one.text.error is None else one.text.error.code for one in results]


async def test_each_picture_has_a_result_at_its_place(pictures):
    results = await texts(pictures, "a", "none", "b", "pdf", "doubt")
    assert [one.text.index for one in results] == [0, 1, 2, 3, 4]
    assert [one.text.ocr_text for one in results] == ["Pancakes", "", "two eggs", "", ""]
    assert codes(results) == [None, "image_not_found", None, "unsupported_media", "ocr_no_valid_output"]
    assert [one.is_valid for one in results] == [True, False, True, False, False]
    assert not any(one.is_passing for one in results)
    assert (results[0].text.meta.tier, results[0].text.meta.text_len) == ("paddleocr", 8)


async def test_results_are_in_the_order_of_their_indices(pictures):
    refs = [ImageRef(kind="local_path", value=value, index=index) for value, index in (("a", 7), ("b", 2))]
    results = await read_images(reading_of(pictures, SayingReader()), refs, EN)
    assert [(one.text.index, one.text.ocr_text) for one in results] == [(2, "two eggs"), (7, "Pancakes")]


async def test_doubtful_text_does_not_pass_as_content(pictures):
    (result,) = await texts(pictures, "doubt")
    assert (result.text.ocr_text, result.text.meta.is_valid) == ("", False)
    assert result.text.error.message == "low confidence"


async def test_a_crash_and_a_bug_may_pass_and_cost_their_picture_alone(pictures):
    results = await texts(pictures, "crash", "a", "bug")
    assert codes(results) == ["ocr_engine_error", None, "internal_error"]
    assert [one.is_passing for one in results] == [True, False, True]


async def test_a_text_is_cut_at_a_character(pictures):
    keep_pictures(pictures, long="ä" * MAX_TEXT_BYTES)
    (result,) = await texts(pictures, "long")
    assert result.text.truncated
    assert result.text.ocr_text == "ä" * (MAX_TEXT_BYTES // 2)
    assert result.text.meta.text_len == MAX_TEXT_BYTES


async def test_no_more_pictures_are_in_memory_than_allowed(pictures):
    pair = asyncio.Barrier(2)
    private = pictures / "private"

    class InPairs(SayingReader):
        async def read(self, path, wish):
            await pair.wait()
            assert len(list(private.iterdir())) <= 2
            return await super().read(path, wish)

    reader = InPairs()
    results = await read_images(reading_of(pictures, reader, at_once=2), refs_of(*["a"] * 8), EN)
    assert all(one.is_valid for one in results)


async def test_the_pictures_are_private_and_gone_afterwards(pictures):
    modes = []

    class Looking(SayingReader):
        async def read(self, path, wish):
            modes.append(stat.S_IMODE(path.stat().st_mode))
            return await super().read(path, wish)

    await texts(pictures, "a", "crash", reader=Looking())
    assert modes == [0o600, 0o600]
    assert list((pictures / "private").iterdir()) == []


@pytest.mark.parametrize("language", ["../../etc", "x" * 100, "", "en; rm"])
async def test_what_is_no_language_does_not_reach_the_engine(pictures, language):
    reader = SayingReader()
    (result,) = await texts(pictures, "a", reader=reader, language=language)
    assert reader.languages == ["en"]
    assert result.text.meta.language == "en"


async def test_a_picture_may_come_with_its_request(pictures):
    given = [InlineImage(data=b"Pancakes", index=0)]
    (result,) = await read_images(reading_of(pictures, SayingReader()), given, PictureWish(language="de"))
    assert (result.text.ocr_text, result.text.meta.language) == ("Pancakes", "de")


async def test_a_picture_whose_store_is_busy_is_asked_for_again(pictures):
    class Busy:
        asked = 0

        async def read(self, *_, **__):
            self.asked += 1
            if self.asked < 3:
                raise TimeoutError
            return b"Pancakes"

    buckets = Busy()
    ref = ImageRef(kind="s3", value="s3://recipes/0.jpg", index=0)
    (result,) = await read_images(reading_of(pictures, SayingReader(), buckets=buckets), [ref], EN)
    assert (result.text.ocr_text, buckets.asked) == ("Pancakes", 3)


async def test_a_machine_that_reads_nothing_is_no_result(pictures):
    class Away(SayingReader):
        async def read(self, *_, **__):
            raise Unavailable("no process can be started")

    with pytest.raises(Unavailable):
        await texts(pictures, "a", "b", reader=Away())
    assert list((pictures / "private").iterdir()) == []
