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
from quire.testing.factories import former_phase as phase
from quire.testing.factories import former_pipeline as pipeline
from quire.testing.factories import report

KNOWN = pipeline(phase(cached=False, max_attempts=1))


@pytest.fixture
async def house(tmp_path):
    async with open_engine(
        Settings(home=tmp_path, workers=1), pipelines={KNOWN.name: KNOWN}, step_modules=TEST_STEPS
    ) as house:
        yield house


@pytest.fixture
async def batch(house):
    """One file, whose first attempt is out with a member that will be gone."""
    batch = await submitted(house, KNOWN, ["a"])
    async with house.start_engine(workers=0) as wheel:
        await wheel._begin()
        while not await house.tasks.list_workable(limit=1, now=house.clock.now()):
            await wheel._turn_or_rest(None)
        member = await house.members.add_member("gone", "run", "here", now=1.0)
        (claim,) = await house.tasks.claim_tasks(batch.no, member=member.no, limit=9, now=house.clock.now())
        assert claim.order.attempt == 1
    return batch


async def state(house, batch):
    return (await house.tasks.get_task(batch.no, 1)).state


async def test_every_member_is_present(house):
    await house.members.add_member("one", "run", "here", now=1.0)
    assert await LedgerQueueMembers(house, RetryPolicy()).member_names() == {"one"}


async def test_a_report_is_folded_once_by_the_rules_of_its_phase(house, batch):
    members = LedgerQueueMembers(house, RetryPolicy())
    failed = report(outcome=Outcome.ERRED, batch_no=batch.no, error_class="x", error="y")
    await members.settle_report(failed)
    assert await state(house, batch) is TaskState.FAILED, "the phase allows one attempt"
    await members.settle_report(report(batch_no=batch.no))
    assert await state(house, batch) is TaskState.FAILED


@pytest.mark.parametrize(
    "stray", [report(batch_no=99), report(task_no=99), report(attempt=2), report(attempt=0)]
)
async def test_a_report_of_what_never_was_changes_nothing(house, batch, stray):
    await LedgerQueueMembers(house, RetryPolicy()).settle_report(stray)
    assert await state(house, batch) is TaskState.RUNNING
    (found,) = await house.records.list_batches(BatchFilter(limit=1))
    assert found.no == batch.no
