"""The same work is never out twice."""

from tests.situations.plans import phase, step

from quire.engine.claims import RunningClaim, RunningClaims, Work, cache_key
from quire.engine.retry import RetryPolicy
from quire.ledger.port import Claim
from quire.model.work import Order, Outcome
from quire.testing.factories import file, report

WORK = Work(phase(step()).call(step()), RetryPolicy())


def claim(task_no, attempt=1, batch_no=1):
    return Claim(Order(batch_no, task_no, attempt, file()), 0, 0, 0.0)


def add(out, one, key=None):
    return out.add(one, WORK, key)


def tasks(outs):
    return [(one.claim.order.batch_no, one.claim.order.task_no) for one in outs]


def test_equal_work_waits_for_the_first_and_comes_back_with_it():
    out = RunningClaims()
    assert [add(out, claim(number), "k") for number in (1, 2, 3)] == [True, False, False]
    assert add(out, claim(4), "other")
    assert out.waiting_count == 2
    mine, behind = out.remove(report(1))
    assert (mine, tasks(behind)) == (RunningClaim(claim(1), WORK, "k"), [(1, 2), (1, 3)])
    assert out.waiting_count == 0
    assert out
    out.remove(report(4))
    assert not out


def test_after_a_failure_the_next_may_go():
    out = RunningClaims()
    add(out, claim(1), "k")
    add(out, claim(2), "k")
    mine, behind = out.remove(report(1, outcome=Outcome.ERRED))
    assert tasks(behind) == [(1, 2)]
    assert cache_key(mine, report(1, outcome=Outcome.ERRED)) is None
    assert add(out, claim(2), "k")


def test_only_a_success_of_ours_is_remembered():
    assert cache_key(RunningClaim(claim(1), WORK, "k"), report(1)) == "k"
    assert cache_key(None, report(1)) is None


def test_work_without_a_key_never_waits():
    out = RunningClaims()
    assert all(add(out, claim(number)) for number in (1, 2))


def test_foreign_and_outdated_reports_touch_nothing():
    out = RunningClaims()
    add(out, claim(1, attempt=2), "k")
    assert out.remove(report(1, attempt=1)) == (None, [])
    assert out.remove(report(9)) == (None, [])
    assert out.remove(report(1, attempt=2))[0] is not None


def test_what_was_never_handed_over_can_be_withdrawn():
    out = RunningClaims()
    add(out, claim(1), "k")
    add(out, claim(2), "k")
    assert out.withdraw_waiting() == [claim(2).order]
    assert out.withdraw_waiting() == []
    assert out.remove(report(1))[1] == []


def test_dropping_a_batch_frees_what_others_waited_for():
    out = RunningClaims()
    add(out, claim(1), "k")
    add(out, claim(2), "k")
    add(out, claim(1, batch_no=2), "k")
    add(out, claim(5, batch_no=2), "other")
    add(out, claim(6), "other")
    assert tasks(out.drop({1})) == [(2, 1)]
    assert (out.batches(), out.waiting_count) == ({2}, 0)
    assert out.orders() == {(2, 5, 1)}
