"""Several computes at once: each order goes to the compute that its phase names."""

import pytest

from quire.compute.router import ComputeRouter
from quire.model.errors import Misconfigured
from quire.model.files import File
from quire.model.work import Order, Outcome, Report, StepCall


class Recorded:
    """A compute that takes everything and says what it was asked."""

    def __init__(self, name: str, room: int) -> None:
        self.name, self._room = name, room
        self.taken: list[Order] = []
        self.revoked: list[int] = []

    def capacity(self, compute: str = "", call=None) -> int:  # noqa: ARG002
        assert compute == self.name
        return self._room

    async def submit(self, call: StepCall, orders: list[Order]) -> None:
        assert call.compute == self.name
        self.taken += orders

    def take_reports(self) -> list[Report]:
        return [Report(1, 1, 1, Outcome.DONE, 0.0, 0.0, self.name)]

    def revoke(self, batch_no: int) -> None:
        self.revoked.append(batch_no)

    async def stop(self, grace_seconds: float) -> list[Order]:  # noqa: ARG002 all of it is unstarted
        return self.taken


def order(number: int) -> Order:
    return Order(1, number, 1, File(key="k", path="p", name="p", size=1, content_type="text/plain"))


@pytest.fixture
def pair():
    return {"local": Recorded("local", 3), "far": Recorded("far", 0)}


def test_room_is_asked_of_the_one_that_is_named_and_others_have_none(pair):
    board = ComputeRouter(pair)
    assert [board.capacity("local"), board.capacity("far"), board.capacity("nowhere")] == [3, 0, 0]


async def test_orders_go_where_their_phase_runs(pair):
    board = ComputeRouter(pair)
    await board.submit(StepCall(step="s", version=1, compute="far"), [order(1)])
    await board.submit(StepCall(step="s", version=1, compute="local"), [order(2)])
    assert ([one.task_no for one in pair["far"].taken], [one.task_no for one in pair["local"].taken]) == (
        [1],
        [2],
    )
    with pytest.raises(Misconfigured):
        await board.submit(StepCall(step="s", version=1, compute="nowhere"), [order(3)])


async def test_reports_revocations_and_the_end_are_of_all(pair):
    board = ComputeRouter(pair)
    assert [report.worker for report in board.take_reports()] == ["local", "far"]
    board.revoke(7)
    assert (pair["local"].revoked, pair["far"].revoked) == ([7], [7])
    await board.submit(StepCall(step="s", version=1, compute="far"), [order(1)])
    assert [one.task_no for one in await board.stop(0)] == [1]
