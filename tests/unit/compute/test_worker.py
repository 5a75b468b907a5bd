"""What a worker makes of orders: costs, signs of life, units, and results that nobody can use."""

import asyncio
import hashlib
import threading

import msgspec
import pytest

from quire.blobs import asset_records, content, keys
from quire.compute.pool import frames
from quire.compute.pool.memory import IDLE_MB
from quire.compute.pool.meter import PROGRESS_INTERVAL_SECONDS
from quire.model.asset import AssetDraft
from quire.model.cost import Cost
from quire.model.errors import Reject, Retry
from quire.model.step import NO_OUTPUT, MemoryEstimate, OutputFile, StepOutput
from quire.model.work import EarlierResult, Order, Outcome, StepCall, StepResult
from quire.testing.factories import file
from quire.testing.steps import NONSENSE

SPENT = Cost(tokens_in=1005, tokens_out=20, money_micros=1501)


def order(name="a.tif", *, task_no=1, batch_no=1, attempt=1, **changes):
    return Order(batch_no, task_no, attempt, file(name, **changes))


def stored(bench, data, path="a/b.tif"):
    kept = asyncio.run(content.put_bytes(bench.blobs, data))
    return file(path, key=kept.key, size=kept.size, digest=kept.digest)


def unit_order(bench, members, **changes):
    listing = stored(bench, msgspec.json.encode(members), "a")
    return Order(1, 1, 1, listing, **changes)


def misbehave(bench, name):
    (report,) = bench.take_reports(StepCall(step="misbehave", version=1), order(name))
    return report


class FarBlobs:
    """A store on another machine."""

    def __init__(self, held, pieces=3):
        self._held = held
        self.asked = []
        self._pieces = pieces

    def local_path(self, _key):
        return None

    async def stream(self, key):
        self.asked.append(key)
        if key not in self._held:
            raise Retry("the line is dead", code="line", delay_seconds=3)
        size = -(-len(self._held[key]) // self._pieces)
        for at in range(0, len(self._held[key]), size):
            yield self._held[key][at : at + size]


def test_bytes_in_and_out_are_counted(bench):
    bench = bench()
    given = Order(1, 1, 1, stored(bench, b"12345"))
    (report,) = bench.take_reports(StepCall(step="copy", version=1), given)
    assert report.outcome is Outcome.DONE
    assert report.cost == Cost(bytes_in=5, bytes_out=5)


def test_what_was_spent_is_reported(bench):
    assert misbehave(bench(), "spend.tif").cost == SPENT


def test_what_was_spent_counts_when_the_step_fails_afterwards(bench):
    report = misbehave(bench(), "costly.tif")
    assert (report.outcome, report.error_class) == (Outcome.ERRED, "no_answer")
    assert report.cost == SPENT


def test_bytes_that_a_failed_step_was_given_count(bench):
    def fail(_):
        raise Reject("no")

    bench = bench()
    call = bench.step(fail, needs_source=True)
    (report,) = bench.take_reports(call, Order(1, 1, 1, stored(bench, b"123")))
    assert report.cost == Cost(bytes_in=3)


def test_one_order_does_not_pay_for_another(bench):
    orders = [order("spend", task_no=1), order("good", task_no=2)]
    _, second = bench().take_reports(StepCall(step="misbehave", version=1), *orders)
    assert second.cost == Cost()


def test_spending_is_told_before_the_step_ends(bench):
    heard = bench().hears(frames.Chunk(StepCall(step="misbehave", version=1), [order("spend")]))
    kinds = [kind for kind, _ in heard]
    assert kinds == [frames.STARTED, frames.SPENT, frames.SPENT, frames.REPORT]
    assert [frames.cost_decoder.decode(heard[at][1]).tokens_in for at in (1, 2)] == [1000, 1005]


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens_in": -1},
        {"tokens_in": 0.5},
        {"tokens_out": 2**63},
        {"money": "much"},
        {"money": float("nan")},
        {"money": -1},
        {"money": "1e99999999"},
    ],
)
def test_what_is_no_amount_fails_the_step_and_costs_nothing(bench, wrong):
    def spend(given):
        given.meter.spend(**wrong)
        return NO_OUTPUT

    bench = bench()
    (report,) = bench.take_reports(bench.step(spend), order())
    assert (report.outcome, report.error_class, report.cost) == (Outcome.ERRED, "step_error", Cost())


def test_many_small_amounts_add_up(bench):
    def spend(given):
        for _ in range(10):
            given.meter.spend(money="0.0000004")
        return NO_OUTPUT

    bench = bench()
    (report,) = bench.take_reports(bench.step(spend), order())
    assert report.cost.money_micros == 4


def progress_told(bench, run):
    heard = bench.hears(frames.Chunk(bench.step(run), [order()]))
    return [frames.progress_decoder.decode(payload) for kind, payload in heard if kind == frames.PROGRESS]


def test_a_chatty_step_writes_a_few_signs_of_life_a_second(bench):
    bench = bench()

    def chat(given):
        for number in range(10_000):
            given.meter.progress(number, 10_000)
            bench.clock.advance(0.0001)
        return NO_OUTPUT

    told = progress_told(bench, chat)
    assert 1 <= len(told) <= 1 / PROGRESS_INTERVAL_SECONDS
    assert told[0].total == 10_000


def test_a_short_step_writes_none(bench):
    def chat(given):
        given.meter.progress()
        return NO_OUTPUT

    assert progress_told(bench(), chat) == []


def test_progress_may_come_from_another_thread(bench):
    bench = bench()

    def run(given):
        bench.clock.advance(1)
        thread = threading.Thread(target=given.meter.progress, args=(1, 2))
        thread.start()
        thread.join()
        return NO_OUTPUT

    assert progress_told(bench, run) == [frames.ProgressFrame(1, 2)]


def test_a_thread_left_behind_does_not_speak_for_the_next_order(bench):
    bench = bench()
    kept = []

    def run(given):
        for meter in kept:
            meter.progress()
            meter.spend(tokens_in=7)
        kept.append(given.meter)
        bench.clock.advance(1)
        return NO_OUTPUT

    heard = bench.hears(frames.Chunk(bench.step(run), [order(task_no=1), order(task_no=2)]))
    assert [kind for kind, _ in heard] == [frames.STARTED, frames.REPORT] * 2


def test_bytes_on_their_way_are_signs_of_life(bench):
    def slow_pieces(blobs, clock):
        inner = blobs.stream

        async def stream(key):
            async for piece in inner(key):
                clock.advance(1)
                yield piece

        return stream

    blobs = FarBlobs({"k": b"123456"})
    bench = bench(blobs=blobs)
    blobs.stream = slow_pieces(blobs, bench.clock)
    call = bench.step(lambda _: NO_OUTPUT, needs_source=True)
    heard = bench.hears(frames.Chunk(call, [order(key="k")]))
    assert [kind for kind, _ in heard].count(frames.PROGRESS) == 3


@pytest.mark.parametrize("kind", sorted(NONSENSE))
def test_nonsense_becomes_a_failed_attempt_that_names_the_step(bench, kind):
    bench = bench()
    given = Order(1, 1, 1, stored(bench, b"12345"))
    call = StepCall(step="nonsense", version=1, options={"kind": kind})
    (report,) = bench.take_reports(call, given)
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "bad_result"), report.error
    assert "the step nonsense returned" in report.error
    assert [name for name in bench.left() if name != "outside"] == []


def test_a_copy_of_the_input_is_no_product_either(bench):
    blobs = FarBlobs({"k": b"123"})
    call = StepCall(step="nonsense", version=1, options={"kind": "own_input"})
    (report,) = bench(blobs=blobs).take_reports(
        call, order(key="k", digest=hashlib.sha256(b"123").hexdigest())
    )
    assert report.error_class == "bad_result"


def test_an_empty_product_is_refused(bench):
    bench = bench()
    (report,) = bench.take_reports(StepCall(step="empty", version=1), Order(1, 1, 1, stored(bench, b"1")))
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "empty_product")


def test_a_product_in_a_folder_of_the_steps_own_is_taken(bench):
    def run(given):
        target = given.folder / "deep" / "product"
        target.parent.mkdir()
        target.write_bytes(b"12")
        return StepOutput(files=(OutputFile(role="r", path=target, content_type="text/plain"),))

    bench = bench()
    call = bench.step(run, needs_source=True)
    (report,) = bench.take_reports(call, Order(1, 1, 1, stored(bench, b"1")))
    assert (report.outcome, report.cost) == (Outcome.DONE, Cost(bytes_in=1, bytes_out=2))


class SilentError(Exception):
    def __str__(self):
        raise ValueError("not even this")


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (SilentError(), "step_error"),
        (ValueError("half a character: \ud800"), "step_error"),
        (Reject("no", code=5), "bad_result"),
        (Retry("later", delay_seconds="soon"), "bad_result"),
    ],
)
def test_an_odd_error_is_told_all_the_same(bench, error, error_class):
    def fail(_):
        raise error

    bench = bench()
    (report,) = bench.take_reports(bench.step(fail), order())
    assert report.error_class == error_class


@pytest.mark.parametrize("unit", ["directory", "batch"])
def test_a_unit_step_is_given_its_members_and_what_came_earlier(bench, unit):
    bench = bench()
    given = unit_order(
        bench,
        [file("a/1.tif"), file("a/2.tif", tags=("t",))],
        earlier=(EarlierResult("a/0.tif", StepResult(facts={"pages": 3})),),
    )
    (report,) = bench.take_reports(StepCall(step="list_members", version=1, unit=unit), given)
    (product,) = report.result.products
    listed = asyncio.run(bench.blobs.get(product.key)).decode()
    assert listed == "a/1.tif\na/2.tif\na/0.tif\n"
    assert report.cost == Cost(bytes_out=len(listed))


def test_a_unit_step_that_needs_no_source_is_given_its_members_too(bench):
    bench = bench()
    call = bench.step(lambda given: StepOutput(facts={"members": len(given.members)}))
    (report,) = bench.take_reports(
        msgspec.structs.replace(call, unit="batch"), unit_order(bench, [file()] * 3)
    )
    assert report.result.facts == {"members": 3}


def test_members_are_fetched_once_each_and_counted(bench):
    bench = bench()
    members = [stored(bench, b"one", "a/1"), stored(bench, b"three", "a/3")]
    call = StepCall(step="join_members", version=1, unit="directory")
    (report,) = bench.take_reports(call, unit_order(bench, members))
    assert report.result.facts["same"] is True
    assert report.cost == Cost(bytes_in=8, bytes_out=8)


def test_members_of_a_far_store_are_copied_under_names_of_our_own(bench):
    members = [file("a/../../evil", key="one", digest=""), file("a/evil", key="two", digest="")]
    blobs = FarBlobs({"list": msgspec.json.encode(members), "one": b"1", "two": b"22"})
    bench = bench(blobs=blobs)
    found = {}

    def run(given):
        paths = [given.fetch(member) for member in (*given.members, *given.members)]
        found["bytes"] = [path.read_bytes() for path in paths]
        found["inside"] = [path.parent == given.folder for path in paths]
        found["names"] = [path.name for path in paths]
        return NO_OUTPUT

    call = msgspec.structs.replace(bench.step(run, needs_source=True), unit="directory")
    (report,) = bench.take_reports(call, order(key="list", digest=""))
    assert report.outcome is Outcome.DONE, report.error
    assert found["bytes"] == [b"1", b"22"] * 2
    assert all(found["inside"])
    assert not any("evil" in name for name in found["names"])
    assert blobs.asked == ["list", "one", "two"]
    assert report.cost == Cost(bytes_in=3)
    assert bench.left() == []


@pytest.mark.parametrize("needs_source", [True, False])
def test_fetching_the_file_itself_gives_the_source(bench, needs_source):
    bench = bench(blobs=FarBlobs({"k": b"123"}))
    call = bench.step(
        lambda given: StepOutput(facts={"read": given.fetch(given.file).read_text()}),
        needs_source=needs_source,
    )
    (report,) = bench.take_reports(call, order(key="k", digest=hashlib.sha256(b"123").hexdigest()))
    assert (report.result.facts, report.cost) == ({"read": "123"}, Cost(bytes_in=3))
    assert bench.blobs.asked == ["k"]
    assert bench.left() == []


def test_a_fault_of_the_store_while_fetching_is_not_the_files(bench):
    bench = bench(blobs=FarBlobs({"list": msgspec.json.encode([file(key="gone")])}))
    call = StepCall(step="join_members", version=1, unit="directory")
    (report,) = bench.take_reports(call, order(key="list", digest=""))
    assert (report.outcome, report.error_class) == (Outcome.INTERRUPTED, "line")
    assert report.delay_seconds == 3


@pytest.mark.parametrize("listing", [b"", b"{}", b"[1]", b'[{"key": "k"}]', b'["\xff"]', b"[" * 100_000])
def test_a_list_of_members_that_is_none_is_rejected(bench, listing):
    bench = bench()
    call = StepCall(step="list_members", version=1, unit="batch")
    (report,) = bench.take_reports(call, Order(1, 1, 1, stored(bench, listing, "a")))
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "bad_members")
    assert bench.left() == []


def test_what_was_revoked_is_skipped_and_what_came_later_is_not(bench):
    bench = bench()
    ran = []

    def run(given):
        ran.append(given.file.name)
        return NO_OUTPUT

    call = bench.step(run)
    before = [order("1a", batch_no=1), order("2a", batch_no=2), order("1b", batch_no=1)]
    after = [order("1a-again", batch_no=1, attempt=2)]
    heard = bench.hears(frames.Chunk(call, before), frames.Chunk(call, after), revoked=1)
    assert ran == ["2a", "1a-again"]
    done = [frames.STARTED, frames.REPORT]
    assert [kind for kind, _ in heard] == [frames.SKIPPED, *done, frames.SKIPPED, *done]


def with_asset(asset_id="0" * 26, **changes):
    """A step that makes a thumb and says that its file is an asset."""

    def run(given):
        (given.folder / "t.jpg").write_bytes(b"thumb")
        facts = {"width": 2, "height": 1}
        made = OutputFile(role="thumb", path=given.folder / "t.jpg", content_type="image/jpeg", facts=facts)
        draft = AssetDraft(id=asset_id, content_type="image/png", width=9, height=8, cid="c")
        return StepOutput(files=(made,), asset=msgspec.structs.replace(draft, **changes))

    return run


def test_an_asset_is_registered_with_the_keys_of_its_copies_before_the_report(bench):
    bench = bench()
    source = stored(bench, b"whole")
    (report,) = bench.take_reports(bench.step(with_asset(), needs_source=True), Order(1, 1, 1, source))
    (thumb,) = report.result.products
    asset = asyncio.run(asset_records.find(bench.blobs, "0" * 26))
    assert {role: one.key for role, one in asset.renditions.items()} == {
        "thumb": thumb.key,
        "original": source.key,
    }
    assert (asset.width, asset.height, asset.cid, asset.name) == (9, 8, "c", source.name)
    assert (asset.renditions["thumb"].width, asset.renditions["thumb"].height) == (2, 1)


def test_the_first_registration_of_an_asset_wins(bench):
    bench = bench()
    first, second = stored(bench, b"1"), stored(bench, b"2")
    call = bench.step(with_asset(), needs_source=True)
    bench.take_reports(call, Order(1, 1, 1, first))
    (report,) = bench.take_reports(call, Order(1, 2, 1, second))
    assert report.outcome is Outcome.DONE
    asset = asyncio.run(asset_records.find(bench.blobs, "0" * 26))
    assert asset.renditions["original"].key == first.key


@pytest.mark.parametrize(
    "run", [with_asset("../../x"), with_asset(width="wide"), lambda _: StepOutput(asset=5)]
)
def test_an_asset_that_cannot_be_recorded_fails_its_own_attempt(bench, run):
    bench = bench()
    (report,) = bench.take_reports(bench.step(run, needs_source=True), Order(1, 1, 1, stored(bench, b"1")))
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "bad_result")


MB = 1 << 20


def weighty(bench, megabytes, *, least=0, ran=None):
    def run(given):
        (ran if ran is not None else []).append(given.file.path)
        return NO_OUTPUT

    return bench.step(run, estimate_memory=lambda _: MemoryEstimate(megabytes * MB, least * MB))


@pytest.mark.parametrize(
    ("megabytes", "answer", "kinds", "runs"),
    [
        (100, None, [frames.STARTED, frames.REPORT], 1),
        (300, frames.GO, [frames.STARTED, frames.NEEDS_MEMORY, frames.REPORT], 1),
        (300, frames.WAIT, [frames.STARTED, frames.NEEDS_MEMORY], 0),
    ],
)
def test_an_order_that_needs_more_than_its_chunk_was_granted_asks_first(
    bench, megabytes, answer, kinds, runs
):
    bench, ran = bench(), []
    call = weighty(bench, megabytes, ran=ran)
    heard = bench.hears(frames.Chunk(call, [order()], 256), answers=[answer] if answer else [])
    assert [kind for kind, _ in heard] == kinds
    assert len(ran) == runs
    asked = [
        frames.memory_request_decoder.decode(payload)
        for kind, payload in heard
        if kind == frames.NEEDS_MEMORY
    ]
    assert asked == [frames.MemoryRequest(IDLE_MB + megabytes)] * (answer is not None)


def test_an_order_that_cannot_do_with_its_limit_is_refused_before_it_begins(bench):
    bench, ran = bench(), []
    (report,) = bench.take_reports(weighty(bench, 0, least=5000, ran=ran), order())
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "too_much_memory")
    assert ran == []


def test_weighing_that_fails_is_a_failed_attempt(bench):
    bench = bench()

    def estimate_memory(_):
        raise KeyError("no such tag")

    (report,) = bench.take_reports(bench.step(lambda _: NO_OUTPUT, estimate_memory=estimate_memory), order())
    assert (report.outcome, report.error_class) == (Outcome.ERRED, "step_error")


def test_a_damaged_input_never_reaches_the_step_and_is_set_aside(bench):
    bench = bench()
    given = stored(bench, b"right")
    path = bench.blobs.local_path(given.key)
    path.chmod(0o644)
    path.write_bytes(b"wrong")
    seen = []
    call = bench.step(lambda one: seen.append(one.source.read_bytes()) or NO_OUTPUT, needs_source=True)
    (report,) = bench.take_reports(call, Order(1, 1, 1, given))
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "damaged_blob")
    assert "stored copy" in report.error
    assert "not to blame" in report.error
    assert seen == []
    assert bench.blobs.local_path(given.key) is None, "its place is free for the right bytes"
    assert bench.blobs.local_path(keys.damaged(given.digest)).read_bytes() == b"wrong"
    stored(bench, b"right")
    (report,) = bench.take_reports(call, Order(1, 1, 2, given))
    assert (report.outcome, seen) == (Outcome.DONE, [b"right"])


def test_a_damaged_input_from_a_far_store_never_reaches_the_step(bench):
    bench = bench(blobs=FarBlobs({"k": b"124"}))
    seen = []
    call = bench.step(lambda one: seen.append(one) or NO_OUTPUT, needs_source=True)
    (report,) = bench.take_reports(call, order(key="k", digest=hashlib.sha256(b"123").hexdigest()))
    assert (report.outcome, report.error_class, seen) == (Outcome.REJECTED, "damaged_blob", [])
    assert bench.left() == []
