"""Costs add up exactly, and a step can be called without anybody who counts."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.compute.pool import frames
from quire.model.cost import NO_COST, Cost, parse_money, to_micros
from quire.model.errors import Misconfigured
from quire.model.step import StepInput
from quire.model.work import EarlierResult, Order, Outcome, StepCall, StepResult
from quire.testing.factories import file, report
from quire.testing.inline_compute import InlineCompute

COSTS = st.builds(Cost, *[st.integers(0, 2**40)] * 5)


@given(COSTS, COSTS)
def test_a_sum_of_costs_is_the_sum_of_each_part(one, other):
    parts = [msgspec.structs.astuple(cost) for cost in (one, other)]
    assert msgspec.structs.astuple(one + other) == tuple(map(sum, zip(*parts, strict=True)))


def test_nothing_added_changes_nothing():
    assert Cost(1, 2, 3, 4, 5) + NO_COST == Cost(1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("money", "expected"),
    [(0.1, 100_000), ("0.0000015", 2), (Decimal("0.0000005"), 0), (3, 3_000_000), (1e-7, 0), (0.0, 0)],
)
def test_money_is_rounded_to_millionths(money, expected):
    assert to_micros(parse_money(money)) == expected


@pytest.mark.parametrize("money", ["", "ten", "-0.1", float("inf"), float("nan"), "1e30", None])
def test_what_is_no_amount_is_refused(money):
    with pytest.raises(ValueError, match="amount"):
        parse_money(money)


def test_costs_and_earlier_results_travel():
    told = report(1, cost=Cost(1, 2, 3, 4, 5))
    given_order = Order(1, 2, 3, file(), (EarlierResult("a/b", StepResult(facts={"pages": 2})),))
    call = StepCall(step="s", version=1, stall_seconds=1.5, unit="batch")
    chunk = frames.Chunk(call, [given_order])
    assert frames.report_decoder.decode(frames.encode_frame(frames.REPORT, told)[frames.HEAD_BYTES :]) == told
    assert frames.chunk_decoder.decode(frames.encode_frame(frames.CHUNK, chunk)[frames.HEAD_BYTES :]) == chunk


def test_a_step_can_be_called_without_a_worker(tmp_path):
    alone = StepInput(file=file("a/b.tif"), source=tmp_path, folder=tmp_path)
    alone.meter.spend(tokens_in=1, money="0.5")
    alone.meter.progress(1, 2)
    assert (alone.members, alone.earlier) == ((), ())
    with pytest.raises(Misconfigured, match=r"a/b\.tif"):
        alone.fetch(alone.file)


class Bell:
    def set(self):
        pass


async def test_inline_compute_drops_the_reports_of_a_revoked_batch():
    compute = InlineCompute(lambda _: (Outcome.DONE, None), Bell())
    call = StepCall(step="s", version=1)
    await compute.submit(call, [Order(1, 1, 1, file()), Order(2, 1, 1, file())])
    compute.revoke(1)
    await compute.submit(call, [Order(1, 1, 2, file())])
    assert [(one.batch_no, one.attempt) for one in compute.take_reports()] == [(2, 1), (1, 2)]
