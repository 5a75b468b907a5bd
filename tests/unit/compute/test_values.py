"""What a worker gives to a step and what it takes from it: values, named outputs, requests to others."""

import asyncio
import hashlib

import msgspec
import pytest

from quire.blobs import content
from quire.blobs.local import LocalBlobs
from quire.compute.pool import values
from quire.compute.pool.values import INLINE_BYTES, encode_value, load_value
from quire.model.errors import Misconfigured, Missing, Retry
from quire.model.files import Change
from quire.model.step import NO_OUTPUT, OutputFile, StepInput, StepOutput
from quire.model.work import ExternalRequest, MemberFile, Order, Outcome, StepCall, Value
from quire.testing.factories import file

CALL = StepCall(step="it", version=1)


def put(bench, data):
    stored = asyncio.run(content.put_bytes(bench.blobs, data))
    return Value(key=stored.key, size=stored.size, digest=stored.digest)


def order(**values):
    return Order(1, 1, 1, file(), (), values)


def report_of(bench, run, given=None, **step):
    (report,) = bench.take_reports(bench.step(run, **step), given or order())
    return report


def gives(value):
    return lambda _: StepOutput(value=value)


def test_small_values_reach_the_step_as_they_are(bench):
    seen = {}
    report_of(
        bench(), lambda given: seen.update(given.values) or NO_OUTPUT, order(a=Value(data=[1]), b=Value())
    )
    assert seen == {"a": [1], "b": None}


@pytest.mark.parametrize("needs_source", [True, False])
def test_large_values_are_fetched_and_decoded(bench, needs_source):
    bench, seen = bench(), {}
    source = put(bench, b"bytes")
    given = Order(
        1,
        1,
        1,
        file(key=source.key, digest=source.digest),
        (),
        {"a": put(bench, b'{"x": [1, "y"]}'), "b": Value(data=2)},
    )
    report = report_of(
        bench, lambda one: seen.update(one.values) or NO_OUTPUT, given, needs_source=needs_source
    )
    assert report.outcome is Outcome.DONE, report.error
    assert seen == {"a": {"x": [1, "y"]}, "b": 2}
    assert bench.left() == []


def test_a_value_that_is_gone_fails_the_attempt(bench):
    lost = Value(key="cas/00/" + "0" * 64, size=9, digest="0" * 64)
    report = report_of(bench(), lambda _: NO_OUTPUT, order(a=lost))
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "missing")


def test_a_value_that_is_not_json_fails_the_attempt(bench):
    bench = bench()
    report = report_of(bench, lambda _: NO_OUTPUT, order(a=put(bench, b"{")))
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "bad_value")


class CountedBlobs(LocalBlobs):
    """Counts the blobs whose bytes were read."""

    read = 0

    async def get(self, key):
        self.read += 1
        return await super().get(key)


def test_a_value_that_is_too_large_is_not_even_read(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(values, "MAX_VALUE_BYTES", 100)
    bench = bench(blobs=CountedBlobs(tmp_path / "blobs"))
    report = report_of(bench, lambda _: NO_OUTPUT, order(a=put(bench, b" " * 101)))
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "value_too_large")
    assert "101" in report.error
    assert "100" in report.error
    assert bench.blobs.read == 0


def test_a_value_with_other_bytes_than_its_digest_is_not_decoded(bench):
    bench = bench()
    digest = hashlib.sha256(b"true").hexdigest()
    asyncio.run(bench.blobs.put(f"cas/{digest[:2]}/{digest}", b"fals"))
    report = report_of(bench, lambda _: NO_OUTPUT, order(a=Value(key="../../x", size=4, digest=digest)))
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "damaged_blob")


@pytest.mark.parametrize("digest", ["../../secret", "A" * 64, "0" * 63 + "\n"])
def test_what_is_no_digest_is_no_key(bench, digest):
    report = report_of(bench(), lambda _: NO_OUTPUT, order(a=Value(digest=digest)))
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "bad_key")


def test_values_of_members_are_read_when_they_are_wanted(bench, tmp_path):
    bench = bench(blobs=CountedBlobs(tmp_path / "blobs"))
    large, small = put(bench, b"[7]"), Value(data=5)
    known = msgspec.structs.asdict(file("a/1"))
    members = [
        MemberFile(**known, values={"x": large, "y": small}),
        MemberFile(**known, values={"x": Value(digest="0" * 64)}),
    ]
    listing = put(bench, msgspec.json.encode(members))

    def run(given):
        before = bench.blobs.read
        first, second = (given.resolve(given.members[0].values[name]) for name in "xy")
        return StepOutput(facts={"before": before, "seen": [first, second], "after": bench.blobs.read})

    call = msgspec.structs.replace(bench.step(run), unit="folder")
    (report,) = bench.take_reports(call, Order(1, 1, 1, file(key=listing.key, digest=listing.digest)))
    assert report.result.facts == {"before": 0, "seen": [[7], 5], "after": 1}


def test_a_passing_fault_of_the_store_is_not_the_files(bench, tmp_path):
    class Away(LocalBlobs):
        async def get(self, _key):
            raise Retry("away", code="away", delay_seconds=2)

    bench = bench(blobs=Away(tmp_path / "blobs"))
    large = put(bench, b"1")
    report = report_of(bench, lambda given: given.resolve(large), order())
    assert (report.outcome, report.error_class) == (Outcome.INTERRUPTED, "away")
    report = report_of(bench, lambda _: NO_OUTPUT, order(a=large))
    assert (report.outcome, report.error_class) == (Outcome.INTERRUPTED, "away")


def test_without_a_store_only_small_values_are_known(tmp_path):
    given = StepInput(file=file(), source=tmp_path, folder=tmp_path)
    assert given.resolve(Value(data=3)) == 3
    with pytest.raises(Misconfigured):
        given.resolve(Value(digest="0" * 64))


@pytest.mark.parametrize("value", [0, "", False, [], {"a": [1, None, "ä"]}, 1.5, (1, 2)])
def test_a_small_value_is_in_the_report(bench, value):
    found = report_of(bench(), gives(value)).result.value
    assert (found.data, found.digest) == (list(value) if isinstance(value, tuple) else value, "")


def test_no_value_is_none(bench):
    assert report_of(bench(), gives(None)).result.value is None


def test_up_to_the_limit_a_value_is_in_the_report_and_beyond_it_in_the_store(bench):
    bench = bench()
    fits, beyond = "x" * (INLINE_BYTES - 2), "x" * (INLINE_BYTES - 1)
    assert report_of(bench, gives(fits)).result.value.data == fits
    report = report_of(bench, gives(beyond))
    found = report.result.value
    assert (found.data, found.size) == (None, INLINE_BYTES + 1)
    assert asyncio.run(load_value(bench.blobs, found)) == beyond
    assert report.cost.bytes_out == INLINE_BYTES + 1
    assert bench.left() == []


def test_more_than_the_limit_is_refused_with_both_numbers(bench, monkeypatch):
    monkeypatch.setattr(values, "MAX_VALUE_BYTES", 5000)
    report = report_of(bench(), gives("x" * 5000))
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "value_too_large")
    assert "5002" in report.error
    assert "5000" in report.error


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    "value", [float("nan"), [float("inf")], object(), 2**70, "\ud800", {"a": {object(): 1}}, lambda: 1]
)
def test_what_json_cannot_say_is_refused(bench, value, large):
    report = report_of(bench(), gives([value, "x" * 5000 * large]))
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "bad_result")
    assert "the step it returned a value" in report.error


def test_equal_values_have_equal_bytes():
    assert encode_value({"b": {"x", "y", "z"}, "a": 1}, CALL) == encode_value(
        {"a": 1, "b": {"z", "y", "x"}}, CALL
    )
    assert encode_value({2: "b", 1: "a"}, CALL) == encode_value({1: "a", 2: "b"}, CALL)


class Notes(msgspec.Struct):
    score: float


def test_records_become_objects():
    assert encode_value(Notes(0.5), CALL) == b'{"score":0.5}'


def outputs(*files, **changes):
    def run(given):
        made = []
        for number, one in enumerate(files):
            target = given.folder / str(number)
            target.write_bytes(b"x")
            made.append(OutputFile(role="r", path=target, content_type="text/plain", **one))
        return StepOutput(files=tuple(made), **changes)

    return run


def stored(bench):
    source = put(bench, b"source")
    return Order(1, 1, 1, file(key=source.key, digest=source.digest))


def test_names_changes_and_tags_are_part_of_the_product(bench):
    bench = bench()
    one = {"name": "words.json", "preferred": "letter.json", "change": Change.JOIN, "tags": ("t",)}
    report = report_of(bench, outputs(one, {}, tags=("seen",)), stored(bench), needs_source=True)
    first, second = report.result.products
    assert {name: getattr(first, name) for name in one} == one
    assert (second.name, second.preferred, second.change, second.tags) == ("", "", Change.HANG, ())
    assert report.result.tags == ("seen",)


@pytest.mark.parametrize("field", ["name", "preferred"])
@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "..",
        ".",
        "/",
        "a\\b",
        "a\nb",
        "a\x00",
        "a\x7f",
        "a\x85b",
        "\u2028",
        "x" * 201,
        "e\u0301",
        "\ud800",
        7,
        "ä" * 101,
        b"bytes",
    ],
)
def test_what_is_no_plain_file_name_is_refused_and_shown_safely(bench, field, name):
    bench = bench()
    report = report_of(bench, outputs({field: name}), stored(bench), needs_source=True)
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "bad_name")
    assert report.error.isprintable()
    assert report.error.isascii()
    assert len(report.error) < 1000
    assert bench.left() == []


@pytest.mark.parametrize("name", ["a", "a..b", ".hidden", "x" * 200, "ä" * 100, "wörter.json", "a b", "…"])
def test_plain_names_are_taken(bench, name):
    bench = bench()
    report = report_of(bench, outputs({"name": name}), stored(bench), needs_source=True)
    assert report.result.products[0].name == name


def test_two_outputs_of_one_name_are_refused_before_anything_is_stored(bench):
    bench = bench()
    given = stored(bench)
    report = report_of(bench, outputs({"name": "a.txt"}, {"name": "A.txt"}), given, needs_source=True)
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "name_twice")
    with pytest.raises(Missing):
        asyncio.run(content.get(bench.blobs, hashlib.sha256(b"x").hexdigest()))


@pytest.mark.parametrize(
    "changes",
    [
        {"change": "vanish"},
        {"change": None},
        {"tags": ["t"]},
        {"tags": ("",)},
        {"tags": ("a\n",)},
        {"tags": (1,)},
        {"tags": ("x" * 201,)},
    ],
)
def test_an_output_that_says_nonsense_is_refused(bench, changes):
    bench = bench()
    report = report_of(bench, outputs(changes), stored(bench), needs_source=True)
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "bad_result")


def test_a_request_to_somebody_outside_is_reported_beside_what_was_stored(bench):
    bench = bench()
    request = ExternalRequest(queue="work", body=b"\x00please", within_seconds=60)
    run = outputs({"name": "asked"}, external=request, value=1)
    report = report_of(bench, run, stored(bench), needs_source=True)
    assert (report.outcome, report.request) == (Outcome.EXTERNAL, request)
    assert asyncio.run(bench.blobs.get(report.result.products[0].key)) == b"x"
    assert report.result.value.data == 1


def test_a_request_needs_no_product(bench):
    report = report_of(bench(), lambda _: StepOutput(external=ExternalRequest()))
    assert (report.outcome, report.request) == (Outcome.EXTERNAL, ExternalRequest())


@pytest.mark.parametrize(
    "request_",
    [
        "please",
        ExternalRequest(queue=7),
        ExternalRequest(queue="jobs\n"),
        ExternalRequest(body="text"),
        ExternalRequest(body=b"x" * 200_000),
        ExternalRequest(within_seconds=0),
        ExternalRequest(within_seconds=float("nan")),
        ExternalRequest(within_seconds=float("inf")),
    ],
)
def test_a_request_that_cannot_be_sent_is_refused(bench, request_):
    report = report_of(bench(), lambda _: StepOutput(external=request_))
    assert (report.outcome, report.error_class) == (Outcome.REJECTED, "bad_result")


def test_an_unknown_step_is_explained_with_the_setting(bench):
    bench = bench()
    (report,) = bench.take_reports(StepCall(step="noop", version=9), order())
    assert report.error_class == "unknown_step"
    assert "`pipelines`" in report.error
    assert "it has version 1" in report.error


def test_a_coroutine_runs_in_a_worker_too_when_it_was_sent_there(bench):
    async def run(given):
        await asyncio.sleep(0)
        return StepOutput(value=given.file.path)

    bench = bench()
    call = bench.step(lambda _: NO_OUTPUT)
    bench.steps["it"] = msgspec.structs.replace(bench.steps["it"], run_async=run)
    (report,) = bench.take_reports(call, order())
    assert report.result.value.data == file().path
