"""The same work is never out twice."""

from quire.engine.outstanding import Outstanding
from quire.ledger.port import Claim
from quire.model.work import Order, Outcome
from quire.testing.factories import file, report


def claim(task_no, attempt=1):
    return Claim(Order(1, task_no, attempt, file()), 0, 0, 0.0)


def test_equal_work_waits_for_the_first_and_comes_back_with_it():
    out = Outstanding()
    assert [out.add(claim(number), "k") for number in (1, 2, 3)] == [True, False, False]
    assert out.add(claim(4), "other")
    mine, key, behind = out.back(report(1))
    assert (mine, key, behind) == (claim(1), "k", [claim(2), claim(3)])
    assert out
    out.back(report(4))
    assert not out


def test_after_a_failure_the_next_may_go():
    out = Outstanding()
    out.add(claim(1), "k")
    out.add(claim(2), "k")
    _, key, behind = out.back(report(1, outcome=Outcome.ERRED))
    assert (key, behind) == (None, [claim(2)])
    assert out.add(claim(2), "k")


def test_work_without_a_key_never_waits():
    out = Outstanding()
    assert all(out.add(claim(number), None) for number in (1, 2))


def test_foreign_and_outdated_reports_touch_nothing():
    out = Outstanding()
    out.add(claim(1, attempt=2), "k")
    assert out.back(report(1, attempt=1)) == (None, None, [])
    assert out.back(report(9)) == (None, None, [])
    assert out.back(report(1, attempt=2))[0] == claim(1, attempt=2)


def test_what_was_never_handed_over_can_be_withdrawn():
    out = Outstanding()
    out.add(claim(1), "k")
    out.add(claim(2), "k")
    assert out.withdraw() == [claim(2)]
    assert out.withdraw() == []
    assert out.back(report(1))[2] == []
