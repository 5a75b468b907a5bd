"""Who is there, and what becomes of a report whose house is gone, on a real ledger."""

import pytest
from tests.situations.runs import TEST_STEPS, submitted

from quire.assembly.engine import open_engine
from quire.batches.remote.queue_members import LedgerQueueMembers
from quire.engine.retry import RetryPolicy
from quire.ledger.port import BatchFilter
from quire.model.batch import TaskState
from quire.model.work import Outcome
from quire.settings import Settings
from quire.testing.factories import phase, pipeline, report

KNOWN = pipeline(phase(cached=False, max_attempts=1))


@pytest.fixture
async def house(tmp_path):
    async with open_engine(
        Settings(home=tmp_path, workers=1), pipelines={KNOWN.name: KNOWN}, step_modules=TEST_STEPS
    ) as house:
        yield house


@pytest.fixture
async def order(house):
    """One file, whose first attempt is out with a member that will be gone."""
    batch = await submitted(house, KNOWN, ["a"])
    async with house.start_engine(workers=0) as wheel:
        await wheel._begin()
        while not await house.flow.list_flowing(limit=1, now=house.clock.now()):
            await wheel._turn_or_rest(None)
        member = await house.members.add_member("gone", "run", "here", now=1.0)
        (claim,) = await house.flow.claim_phase(batch.no, 1, member=member.no, limit=9, now=house.clock.now())
        assert claim.order.attempt == 1
    return claim.order


async def state(house, order):
    return (await house.tasks.get_task(order.batch_no, order.task_no)).state


async def test_every_member_is_present(house):
    await house.members.add_member("one", "run", "here", now=1.0)
    assert await LedgerQueueMembers(house, RetryPolicy()).member_names() == {"one"}


async def test_a_report_is_folded_once_by_the_rules_of_its_phase(house, order):
    members = LedgerQueueMembers(house, RetryPolicy())
    failed = report(order.task_no, outcome=Outcome.ERRED, batch_no=order.batch_no, error_class="x", error="y")
    await members.settle_report(failed)
    assert await state(house, order) is TaskState.FAILED, "the phase allows one attempt"
    await members.settle_report(report(order.task_no, batch_no=order.batch_no))
    assert await state(house, order) is TaskState.FAILED


@pytest.mark.parametrize("wrong", [{"batch_no": 99}, {"task_no": 99}, {"attempt": 2}, {"attempt": 0}])
async def test_a_report_of_what_never_was_changes_nothing(house, order, wrong):
    stray = report(**({"task_no": order.task_no, "batch_no": order.batch_no} | wrong))
    await LedgerQueueMembers(house, RetryPolicy()).settle_report(stray)
    assert await state(house, order) is TaskState.RUNNING
    (found,) = await house.records.list_batches(BatchFilter(limit=1))
    assert found.no == order.batch_no
