"""What every ledger adapter must keep of files that arrive over HTTP. Part of `LedgerSuite`."""

import asyncio
from typing import Any

import pytest

from quire.ledger.port import Upload
from quire.ledger.submissions import AWAITED, TAKEN, OwnerLoad, OwnerQuota, UploadLimits
from quire.model.batch import FileOutcome, Stage
from quire.model.errors import Missing, Reject, Retry, Stale
from quire.testing.factories import draft, outbox_message
from tests.suites.flow_situations import admitted
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_closing_suite import ClosingSuite, ElsewhereSuite, HousekeepingSuite
from tests.suites.submission_situations import arrived, awaited, closed, counters, kinds, new

ODD_PATHS = (
    *("/d/100%.tif", "/d/a+b.tif", "/d/#1.tif", '/d/it\'s "so".tif', "/d/😀.tif", "/d/_.tif", "/d/%.tif"),
    *("/d/caf\u00e9.tif", "/d/cafe\u0301.tif", "/d/back\\slash", "/d/{0}", "/d/%(no)s", "/d/?1", "/d/a b"),
)


class OpeningSuite:
    async def test_who_has_as_much_open_as_it_may_comes_again_later(self, ledger: LedgerAdapter) -> None:
        limits: dict[str, Any] = {"max_batches": 2, "quota": OwnerQuota(max_bytes=2000)}
        first = await ledger.open_submission(new("01A", idempotency_key="k", **limits))
        await ledger.open_submission(new("01C", total_size=10, **limits))
        for wanted in (new("01D", total_size=10, **limits), new("01E", quota=limits["quota"])):
            with pytest.raises(Retry) as refused:
                await ledger.open_submission(wanted)
            assert refused.value.code == "quota"
        again = await ledger.open_submission(new("01F", idempotency_key="k", **limits))
        assert again.batch.id == first.batch.id
        await ledger.abandon_batch(first.batch.no, reason="", now=9.0)
        await ledger.open_submission(new("01G", **limits))

    async def test_an_owner_has_no_more_files_than_it_may(self, ledger: LedgerAdapter) -> None:
        quota = OwnerQuota(max_files=7)
        for batch_id in ("01A", "01C"):
            await ledger.open_submission(new(batch_id, quota=quota))
        with pytest.raises(Retry, match=r"9 files .* the limit is 7") as refused:
            await ledger.open_submission(new("01D", quota=quota))
        assert refused.value.code == "quota"
        await ledger.open_submission(new("01D", file_count=1, quota=quota))

    async def test_what_has_ended_and_is_staged_counts_where_that_is_wanted(
        self, ledger: LedgerAdapter
    ) -> None:
        first = await closed(ledger, "01A")
        await ledger.accept_processed(
            first.batch.no, [awaited("/a", size=70)], message=outbox_message("02"), now=20.0
        )
        assert await ledger.measure_load("key1") == OwnerLoad(0, 0, 0)
        assert await ledger.measure_load("key1", counts_kept=True) == OwnerLoad(0, 70, 1)
        quota = OwnerQuota(max_bytes=100, counts_kept=True)
        with pytest.raises(Retry):
            await ledger.open_submission(new("01C", total_size=31, quota=quota))
        await ledger.mark_swept(first.batch.no, now=30.0)
        assert await ledger.measure_load("key1", counts_kept=True) == OwnerLoad(0, 0, 0)
        await ledger.open_submission(new("01C", total_size=31, quota=quota))

    async def test_of_many_that_open_at_once_no_more_get_in_than_may(self, ledger: LedgerAdapter) -> None:
        wanted = [ledger.open_submission(new(f"01{number}", max_batches=3)) for number in range(8)]
        ends = await asyncio.gather(*wanted, return_exceptions=True)
        assert sum(isinstance(one, Retry) for one in ends) == 5

    async def test_what_a_sender_says_of_its_batch_is_kept(self, ledger: LedgerAdapter) -> None:
        wanted = new(draft=draft("01B", hands_over_to="batches", tier=2))
        opened = await ledger.open_submission(wanted)
        assert opened == await ledger.get_submission("01B")
        said = ("session_id", "uploader", "root_path", "parent_pi", "file_count", "total_size", "owner")
        assert [getattr(opened, name) for name in said] == [getattr(wanted, name) for name in said]
        assert (opened.metadata, opened.custom_prompts) == (wanted.metadata, wanted.custom_prompts)
        assert (counters(opened), opened.active_at) == ((0, 0, 0, 0), wanted.draft.now)
        assert (opened.finalized_at, opened.swept_at) == (None, None)
        assert (opened.batch.position.stage, opened.batch.tier) == (Stage.OPEN, 2)
        assert (await ledger.get_batch("01B")).hands_over_to == "batches"
        assert await kinds(ledger, opened.batch.no) == ["batch_opened"]

    async def test_a_batch_that_came_in_another_way_is_no_submission(self, ledger: LedgerAdapter) -> None:
        batch = await admitted(ledger)
        assert batch.hands_over_to == ""
        for name in (batch.id, "nobody"):
            with pytest.raises(Missing):
                await ledger.get_submission(name)
        with pytest.raises(Stale):
            await ledger.announce_upload(batch.no, awaited("/a"), now=5.0)
        with pytest.raises(Missing):
            await ledger.accept_processed(batch.no, [awaited("/a")], message=outbox_message("01X"), now=5.0)
        assert (await ledger.get_batch(batch.id)).position == batch.position
        assert await ledger.measure_load("") == OwnerLoad(0, 0, 0)

    async def test_the_same_key_gives_the_same_batch(self, ledger: LedgerAdapter) -> None:
        first = await ledger.open_submission(new("01A", idempotency_key="k", fingerprint="f"))
        await ledger.announce_upload(first.batch.no, awaited("/a"), now=5.0)
        again = await ledger.open_submission(new("01C", idempotency_key="k", fingerprint="f"))
        assert (again.batch.id, again.files_announced) == ("01A", 1)
        with pytest.raises(Reject) as refused:
            await ledger.open_submission(new("01D", idempotency_key="k", fingerprint="g"))
        assert refused.value.code == "idempotency_conflict"
        other = await ledger.open_submission(new("01E", idempotency_key="k", fingerprint="g", owner="key2"))
        plain = [await ledger.open_submission(new(name)) for name in ("01F", "01G")]
        assert [one.batch.id for one in (other, *plain)] == ["01E", "01F", "01G"]
        for name in ("01C", "01D"):
            with pytest.raises(Missing):
                await ledger.get_batch(name)

    async def test_of_many_who_open_with_one_key_at_once_one_does(self, ledger: LedgerAdapter) -> None:
        wanted = [new(f"01{number}", idempotency_key="k") for number in range(12)]
        opened = await asyncio.gather(*(ledger.open_submission(one) for one in wanted))
        assert len({one.batch.no for one in opened}) == 1
        assert await ledger.measure_load("key1") == OwnerLoad(1, 1000, 3)


class LimitsSuite:
    """A sender that says little at the opening and announces more: what it announces counts."""

    async def test_a_batch_takes_no_more_bytes_and_files_than_it_may(self, ledger: LedgerAdapter) -> None:
        no = (await ledger.open_submission(new(total_size=1, file_count=1))).batch.no
        limits = UploadLimits(max_bytes=25, max_files=3)
        for path in ("/a", "/b"):
            await ledger.announce_upload(no, awaited(path), now=5.0, limits=limits)
        for wanted in (awaited("/c"), awaited("/b", stamp="s2", size=16)):
            with pytest.raises(Reject) as refused:
                await ledger.announce_upload(no, wanted, now=6.0, limits=limits)
            assert refused.value.code == "too_large"
        assert counters(await ledger.get_submission("01B"))[0] == 2
        assert (await ledger.get_upload(no, "/b")).size == 10
        with pytest.raises(Missing):
            await ledger.get_upload(no, "/c")
        await ledger.announce_upload(no, awaited("/b", stamp="s3", size=15), now=7.0, limits=limits)
        await ledger.withdraw_upload(no, "/a", now=8.0)
        for path in ("/c", "/d"):
            await ledger.announce_upload(no, awaited(path, size=5), now=9.0, limits=limits)
        with pytest.raises(Reject, match="4 files, the limit is 3"):
            await ledger.announce_upload(no, awaited("/e", size=0), now=9.0, limits=limits)

    async def test_an_owner_announces_no_more_than_it_may_in_all_its_batches(
        self, ledger: LedgerAdapter
    ) -> None:
        limits = UploadLimits(owner=OwnerQuota(max_bytes=50))
        one, two = [
            (await ledger.open_submission(new(name, total_size=5))).batch.no for name in ("01A", "01C")
        ]
        for no, path in ((one, "/a"), (one, "/b"), (two, "/a"), (two, "/b")):
            await ledger.announce_upload(no, awaited(path), now=5.0, limits=limits)
        with pytest.raises(Retry, match=r"60 bytes .* the limit is 50") as refused:
            await ledger.announce_upload(one, awaited("/c", size=20), now=5.0, limits=limits)
        assert (refused.value.code, refused.value.delay_seconds) == ("quota", 60)
        await ledger.announce_upload(one, awaited("/c"), now=5.0, limits=limits)
        assert await ledger.measure_load("key1") == OwnerLoad(2, 50, 6)
        await ledger.abandon_batch(two, reason="", now=9.0)
        await ledger.announce_upload(one, awaited("/d", size=20), now=9.0, limits=limits)

    async def test_of_many_that_are_announced_at_once_no_more_get_in_than_may(
        self, ledger: LedgerAdapter
    ) -> None:
        limits = UploadLimits(owner=OwnerQuota(max_bytes=45))
        opened = [await ledger.open_submission(new(f"01{name}", total_size=1)) for name in "ACDE"]
        wanted = [
            ledger.announce_upload(one.batch.no, awaited(path), now=5.0, limits=limits)
            for one in opened
            for path in ("/a", "/b")
        ]
        ends = await asyncio.gather(*wanted, return_exceptions=True)
        assert sum(isinstance(one, Retry) for one in ends) >= 4
        assert sum(one is None for one in ends) >= 3
        assert (await ledger.measure_load("key1")).bytes <= 45

    async def test_what_was_said_at_the_opening_is_kept_for_the_batch(self, ledger: LedgerAdapter) -> None:
        """An honest sender is never refused in the midst of its batch."""
        quota = OwnerQuota(max_bytes=100, max_files=6)
        one = await ledger.open_submission(new("01A", total_size=60, quota=quota))
        other = await ledger.open_submission(new("01C", total_size=40, quota=quota))
        limits = UploadLimits(owner=quota)
        with pytest.raises(Retry):
            await ledger.announce_upload(other.batch.no, awaited("/a", size=41), now=5.0, limits=limits)
        for path in ("/a", "/b", "/c"):
            await ledger.announce_upload(one.batch.no, awaited(path, size=20), now=5.0, limits=limits)
        with pytest.raises(Retry):
            await ledger.announce_upload(one.batch.no, awaited("/d", size=0), now=5.0, limits=limits)


class ArrivingSuite:
    async def test_a_file_is_announced_and_received(self, ledger: LedgerAdapter) -> None:
        no = (await ledger.open_submission(new())).batch.no
        sent = awaited("/d/a.tif", cid="bafk", config={"ocr": True, "é": None}, upload_id="u1")
        assert await ledger.announce_upload(no, sent, now=5.0) is None
        assert await ledger.get_upload(no, "/d/a.tif") == sent
        found = await ledger.get_submission("01B")
        assert (counters(found), found.active_at) == ((1, 0, 0, 1), 5.0)
        came = Upload(
            path=sent.path,
            state=AWAITED,  # it becomes taken whatever is said
            size=12,
            stamp=sent.stamp,
            key="cas/x",
            digest="d" * 64,
            content_type="image/png",
            cid="bafy",
            config={"ocr": False},
            source_file="a.jpg",
            tags=("x", "y"),
        )
        await ledger.record_received(no, came, now=6.0)
        noted = await ledger.get_upload(no, "/d/a.tif")
        assert (noted.state, noted.taken_at, noted.size) == (TAKEN, 6.0, 12)
        assert (noted.cid, noted.config, noted.upload_id) == ("bafy", {"ocr": False}, "")
        assert (noted.source_file, noted.tags, noted.digest) == ("a.jpg", ("x", "y"), "d" * 64)
        assert await ledger.list_uploads(no, limit=9) == [noted]
        found = await ledger.get_submission("01B")
        assert (counters(found), found.active_at) == ((1, 1, 12, 2), 6.0)
        with pytest.raises(Missing):
            await ledger.get_upload(no, "/d")

    async def test_a_file_that_is_received_twice_counts_once(self, ledger: LedgerAdapter) -> None:
        opened = await closed(ledger, paths=("/a",))
        before = await ledger.get_upload(opened.batch.no, "/a")
        # Also when the batch is closed already: the answer to the first time may have been lost.
        await ledger.record_received(opened.batch.no, awaited("/a", size=99), now=20.0)
        assert await ledger.get_upload(opened.batch.no, "/a") == before
        assert counters(await ledger.get_submission("01B")) == (1, 1, 10, 2)

    async def test_a_file_that_is_announced_again_replaces_the_earlier_one(
        self, ledger: LedgerAdapter
    ) -> None:
        no = (await ledger.open_submission(new())).batch.no
        first, second, third = (awaited("/a", stamp=f"s{n}", size=n, upload_id=f"u{n}") for n in (1, 2, 3))
        assert await ledger.announce_upload(no, first, now=5.0) is None
        assert await ledger.announce_upload(no, second, now=6.0) == first
        assert counters(await ledger.get_submission("01B")) == (1, 0, 0, 2)
        with pytest.raises(Stale):
            await ledger.record_received(no, first, now=7.0)
        await ledger.record_received(no, second, now=7.0)
        assert counters(await ledger.get_submission("01B")) == (1, 1, 2, 3)
        earlier = await ledger.announce_upload(no, third, now=8.0)
        assert earlier is not None
        assert (earlier.state, earlier.stamp, earlier.size) == (TAKEN, "s2", 2)
        assert counters(await ledger.get_submission("01B")) == (1, 0, 0, 4)
        assert await ledger.get_upload(no, "/a") == third
        for late in (first, second):
            with pytest.raises(Stale):
                await ledger.record_received(no, late, now=9.0)
        assert counters(await ledger.get_submission("01B")) == (1, 0, 0, 4)

    async def test_a_file_does_not_come_after_all(self, ledger: LedgerAdapter) -> None:
        no = (await ledger.open_submission(new())).batch.no
        await arrived(ledger, no, "/a", "/b")
        await ledger.announce_upload(no, awaited("/c"), now=7.0)
        gone = await ledger.withdraw_upload(no, "/a", now=8.0)
        assert gone is not None
        assert (gone.path, gone.state) == ("/a", TAKEN)
        assert await ledger.withdraw_upload(no, "/c", now=8.5) == awaited("/c")
        assert await ledger.withdraw_upload(no, "/c", now=9.0) is None
        found = await ledger.get_submission("01B")
        assert (counters(found), found.active_at) == ((1, 1, 10, 7), 8.5)
        with pytest.raises(Stale):
            await ledger.record_received(no, awaited("/a"), now=9.0)
        with pytest.raises(Missing):
            await ledger.get_upload(no, "/a")

    async def test_what_was_taken_meanwhile_is_not_withdrawn_with_the_awaited(
        self, ledger: LedgerAdapter
    ) -> None:
        no = (await ledger.open_submission(new())).batch.no
        for path in ("/a", "/b"):
            await ledger.announce_upload(no, awaited(path), now=5.0)
        await ledger.record_received(no, awaited("/a"), now=6.0)
        assert await ledger.withdraw_upload(no, "/a", now=7.0, awaited_only=True) is None
        assert await ledger.withdraw_upload(no, "/b", now=7.0, awaited_only=True) == awaited("/b")
        assert await ledger.withdraw_upload(no, "/none", now=7.0, awaited_only=True) is None
        assert (await ledger.get_upload(no, "/a")).state == TAKEN
        assert counters(await ledger.get_submission("01B"))[:3] == (1, 1, 10)

    @pytest.mark.parametrize(
        ("there", "refused"),
        [
            ("/d/a", "/d/a/b"),
            ("/d/a", "/d/a/b/c/d"),
            ("/d/a/b", "/d/a"),
            ("/d/a/b/c", "/d"),
            ("d/a", "d"),
            ("d", "d/a"),
            ("/100%/a", "/100%"),
            ("/😀", "/😀/é"),
        ],
    )
    async def test_a_path_is_no_file_and_folder_at_once(
        self, ledger: LedgerAdapter, there: str, refused: str
    ) -> None:
        no = (await ledger.open_submission(new())).batch.no
        await ledger.announce_upload(no, awaited(there), now=5.0)
        with pytest.raises(Reject) as told:
            await ledger.announce_upload(no, awaited(refused), now=6.0)
        assert told.value.code == "path_collides"
        found = await ledger.get_submission("01B")
        assert (counters(found), found.active_at) == ((1, 0, 0, 1), 5.0)
        await ledger.announce_upload(no, awaited(there, stamp="s2"), now=7.0)
        await ledger.withdraw_upload(no, there, now=8.0)
        await ledger.announce_upload(no, awaited(refused), now=9.0)

    async def test_paths_that_only_look_alike_do_not_collide(self, ledger: LedgerAdapter) -> None:
        no = (await ledger.open_submission(new())).batch.no
        paths = [
            "/d/a",
            "/d/a.tif",
            "/d/a0",
            "/d/a b/c",
            "/d/a-",
            "/d/A/x",
            "/d/%/x",
            "/d/_/y",
            "/da",
            "/d/a!",
        ]
        for path in paths:
            await ledger.announce_upload(no, awaited(path), now=5.0)
        assert (await ledger.get_submission("01B")).files_announced == len(paths)

    async def test_any_name_is_kept_as_it_is(self, ledger: LedgerAdapter) -> None:
        no = (await ledger.open_submission(new())).batch.no
        for path in ODD_PATHS:
            await ledger.announce_upload(no, awaited(path, source_file=path, tags=(path,)), now=5.0)
        assert [one.path for one in await ledger.list_awaited(no, limit=99)] == sorted(
            ODD_PATHS, key=str.encode
        )
        for path in ODD_PATHS:
            noted = await ledger.get_upload(no, path)
            assert (noted.path, noted.source_file, noted.tags) == (path, path, (path,))
            await ledger.record_received(no, noted, now=6.0)
        assert await ledger.list_awaited(no, limit=99) == []
        for path in ODD_PATHS:
            assert await ledger.withdraw_upload(no, path, now=7.0) is not None
        assert counters(await ledger.get_submission("01B"))[:3] == (0, 0, 0)

    async def test_what_is_awaited_comes_in_order_of_path(self, ledger: LedgerAdapter) -> None:
        no = (await ledger.open_submission(new())).batch.no
        await arrived(ledger, no, "/b", "/e")
        for path in ("/d", "/a", "/c"):
            await ledger.announce_upload(no, awaited(path), now=5.0)
        assert [one.path for one in await ledger.list_awaited(no, limit=2)] == ["/a", "/c"]
        assert [one.path for one in await ledger.list_awaited(no, limit=9)] == ["/a", "/c", "/d"]
        found = {one.path: one.outcome for one in await ledger.list_inputs(no, limit=9)}
        assert set(found.values()) == {FileOutcome.PENDING}
        assert len(await ledger.list_inputs(no, limit=9, outcome=FileOutcome.PENDING)) == 5

    async def test_arrivals_come_in_order_of_folder_and_path(self, ledger: LedgerAdapter) -> None:
        no = (await ledger.open_submission(new())).batch.no
        paths = ["/b/x", "/a/z/1", "/a.b/y", "/top", "/a/2", "/a/10", "/B/x", "/é/x", "/a/z.tif", "/zz"]
        for path in paths:
            await ledger.announce_upload(no, awaited(path), now=5.0)
        await ledger.record_received(no, awaited("/a/2"), now=6.0)
        expected = sorted((path.rpartition("/")[0] or "/", path) for path in paths)
        everything = await ledger.list_arrivals(no, after=None, limit=99)
        assert [one.path for one in everything] == [path for _, path in expected]
        assert [one.path for one in everything if one.state == TAKEN] == ["/a/2"]
        found: list[tuple[str, str]] = []
        while page := await ledger.list_arrivals(no, after=found[-1] if found else None, limit=3):
            found += [(one.path.rpartition("/")[0] or "/", one.path) for one in page]
        assert found == expected


class ReceptionSuite(
    OpeningSuite, LimitsSuite, ArrivingSuite, ClosingSuite, ElsewhereSuite, HousekeepingSuite
):
    """All of it."""
