"""Explores every order in which workers, janitors, crashes and lost answers can meet over one job of the
bucket.

Runs the real protocol (`quire.library.protocol`), request by request, breadth first, and checks every
situation for what must never happen. An operation is a function of the answers it was given, so an actor is
its answers so far, and equal situations are visited once. A claim may begin at any moment, as if on an old
listing; a job may be judged stale at any moment. `Budget.drop` removes one condition: then the known
violations must be found again.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

from quire.library.protocol import layout
from quire.library.protocol.bodies import JobRecord, decode
from quire.library.protocol.lifecycle import HeldJob
from quire.library.protocol.requests import (
    CheckStale,
    CommitResult,
    CreateObject,
    DeleteObjects,
    Operation,
    PutObject,
    StoreRequest,
    SwapObject,
)
from tests.simulation.library import published
from tests.simulation.library.operations import CHOICES, build_operation, list_actors, skip_unused
from tests.simulation.library.situations import (
    JOB,
    OUT,
    STATE,
    TIER,
    Actor,
    BrokenError,
    Budget,
    CopyObject,
    Explored,
    Facts,
    Situation,
    Store,
    Violation,
    apply,
    changed,
    demand,
    describe,
    job_in,
    trace_of,
)


class Explorer:
    def __init__(self, budget: Budget) -> None:
        self._budget, self._unused = budget, published.list_unused(budget)
        self._steps: dict[tuple[Any, ...], tuple[bool, Any]] = {}

    def run(self, *, until: Collection[str] = ()) -> Explored:
        """Explore everything; or, when violations are named, only until they are found."""
        budget = self._budget
        store, begun = self._prepare()
        facts = Facts(budget.crashes, budget.lost, budget.releases, begun=begun)
        first = Situation(store, list_actors(budget), facts)
        parents: dict[Situation, tuple[Situation | None, str]] = {first: (None, "")}
        waiting = deque([first])
        found: dict[str, Violation] = {}
        while waiting:
            here = waiting.popleft()
            for move, make in self._list_moves(here):
                try:
                    there = make()
                except BrokenError as broken:
                    what = str(broken)
                    if what not in found:
                        found[what] = Violation(what, (*trace_of(parents, here), move))
                    if until and set(until) <= set(found):
                        return Explored(len(parents), found)
                    continue
                if there not in parents:
                    parents[there] = (here, move)
                    waiting.append(there)
            if len(parents) > budget.most:
                raise AssertionError(f"more than {budget.most} situations: choose a smaller budget")
        return Explored(len(parents), found)

    def _prepare(self) -> tuple[Store, tuple[int, ...]]:
        """The store at the beginning, and the attempts begun so far."""
        store = {layout.todo(TIER, JOB): b""}
        if self._budget.is_mixed:
            store[layout.raw(JOB)] = b"a source"
        begun = {"todo": 0, "failed": 1, "dead": self._budget.limit}[self._budget.start]
        for number in range(begun):
            if number:
                self._run_alone(store, "settle", f"before{number}")
            held = self._run_alone(store, "claim", f"early{number}", TIER, not store[layout.todo(TIER, JOB)])
            self._run_alone(store, "fail", f"failed{number}", held)
        return tuple(sorted(store.items())), tuple(range(1, begun + 1))

    def _list_moves(self, here: Situation) -> Iterator[tuple[str, Callable[[], Situation]]]:
        ended = True
        for no, actor in enumerate(here.actors):
            if actor.gone:
                continue
            if actor.op:
                ended = False
                yield from self._list_outcomes(here, no, actor)
            else:
                for move, op, args, after in self._list_choices(here, actor):
                    ended = False
                    yield f"{actor.name} {move}", partial(self._begin, here, no, after, op, args)
            if here.facts.crashes and (actor.op or actor.held):
                yield f"{actor.name} crashes", partial(self._crash, here, no)
        if ended:
            yield "everything comes to rest", partial(self._check_rest, here)

    def _list_choices(
        self, here: Situation, actor: Actor
    ) -> Iterator[tuple[str, str, tuple[Any, ...], Actor]]:
        """What an actor may begin now: (description, operation, arguments, actor afterwards)."""
        after = actor._replace(left=actor.left - 1)
        if actor.held is not None:
            yield from self._list_endings(here, actor, actor.held)
        elif actor.left and actor.name[0] == "w":
            seen = dict.fromkeys([(TIER, True), *(published.list_todos(dict(here.store)))])
            for tier, blank in seen if self._budget.is_mixed else [(TIER, True)]:
                yield f"claims from {tier}", "claim", (tier, blank, actor.left), after
        elif actor.left:
            for move, op in CHOICES[actor.name[0]].items():
                yield move, op, (actor.left,), after

    def _list_endings(
        self, here: Situation, actor: Actor, held: HeldJob
    ) -> Iterator[tuple[str, str, tuple[Any, ...], Actor]]:
        if actor.beats:
            yield "beats", "beat", (held, actor.beats), actor._replace(beats=actor.beats - 1)
        yield "finishes", "finish", (held,), actor
        yield "fails", "fail", (held,), actor
        if here.facts.releases:
            yield "releases", "release", (held,), actor

    def _begin(self, here: Situation, no: int, actor: Actor, op: str, args: tuple[Any, ...]) -> Situation:
        facts = here.facts
        if op == "release":
            facts = facts._replace(releases=facts.releases - 1)
        return changed(here, no, actor._replace(op=op, args=args, answers=(), deleted=0), facts=facts)

    def _crash(self, here: Situation, no: int) -> Situation:
        """The process is gone; another one takes its place while there is budget for it."""
        actor = here.actors[no]
        anew = Actor(actor.name, actor.left, gone=actor.left == 0)
        facts = here.facts._replace(crashes=here.facts.crashes - 1, disturbed=True)
        return changed(here, no, anew, facts=facts)

    def _list_outcomes(
        self, here: Situation, no: int, actor: Actor
    ) -> Iterator[tuple[str, Callable[[], Situation]]]:
        request = self._next_request(actor)
        move = f"{actor.name} {actor.op}: {describe(request)}"
        if isinstance(request, CheckStale):
            yield f"{move} -> stale", partial(self._judge, here, no, stale=True)
            yield f"{move} -> fresh", partial(self._judge, here, no, stale=False)
            return
        yield move, partial(self._perform, here, no, request, lost=False)
        if isinstance(request, CreateObject | SwapObject | CommitResult) and here.facts.lost:
            yield f"{move} (answer lost)", partial(self._perform, here, no, request, lost=True)

    def _judge(self, here: Situation, no: int, *, stale: bool) -> Situation:
        facts = here.facts
        there = job_in(here.store)
        if stale and here.actors[no].op == "their janitor":
            facts = facts._replace(disturbed=True)
        elif stale and there is not None and there.state == "running":
            facts = facts._replace(judged=facts.judged | {there.attempt}, disturbed=True)
        return self._take_answer(here, no, stale, here.store, facts)

    def _perform(self, here: Situation, no: int, request: StoreRequest, *, lost: bool) -> Situation:
        if isinstance(request, DeleteObjects) and not self._budget.whole_deletions:
            return self._delete(here, no, request.keys)
        store, facts, actor = dict(here.store), here.facts, here.actors[no]
        answer = apply(store, request, kept=not self._is_dropped(request))
        if isinstance(request, CommitResult) and answer:
            facts = facts._replace(committed=facts.committed + 1)
            demand(facts.committed == 1, "two results were committed")
        elif isinstance(request, CreateObject | SwapObject) and answer is not None:
            facts = self._check_write(here, actor, request, facts)
        elif actor.name[0] in "rm" and isinstance(request, PutObject | CopyObject):
            facts = self._note_wish(here, request, facts)
        if lost:
            facts = facts._replace(lost=facts.lost - 1)
            answer = False if isinstance(request, CommitResult) else None
        return self._take_answer(here, no, answer, tuple(sorted(store.items())), facts)

    @staticmethod
    def _note_wish(here: Situation, request: PutObject | CopyObject, facts: Facts) -> Facts:
        """A person with a published tool queues the job again, or moves it; it counts if the job is still in
        the state in which that tool found it.
        """
        there = job_in(here.store)
        if isinstance(request, CopyObject):
            is_waiting = there is None or there.state == "waiting"
            attempt = 0 if there is None else there.attempt
            return facts._replace(moved_at=attempt if is_waiting else -1)
        facts = facts._replace(asked=facts.asked + 1, disturbed=True)
        found = {"failed": b"manual_retry_failed", "dead": b"manual_retry_dead-letter"}
        is_same = there is not None and found.get(there.state, b"?") in request.body
        return facts._replace(asked_at=there.attempt) if there is not None and is_same else facts

    def _is_dropped(self, request: StoreRequest) -> bool:
        why: str = getattr(request, "why", "")
        return bool(why) and why == self._budget.drop

    def _delete(self, here: Situation, no: int, keys: tuple[str, ...]) -> Situation:
        """One key per step: deletions are not atomic."""
        actor, store = here.actors[no], dict(here.store)
        for at, key in enumerate(keys[actor.deleted :], start=actor.deleted):
            if store.pop(key, None) is not None:
                left = tuple(sorted(store.items()))
                if at + 1 < len(keys):
                    return changed(here, no, actor._replace(deleted=at + 1), store=left)
                return self._take_answer(here, no, None, left, here.facts)
        return self._take_answer(here, no, None, here.store, here.facts)

    def _check_write(
        self, here: Situation, actor: Actor, request: CreateObject | SwapObject, facts: Facts
    ) -> Facts:
        """Check a write of the state at the moment it takes effect."""
        if request.key != STATE:
            return facts
        before, after = job_in(here.store), decode(request.body, JobRecord)
        if after is None:
            raise BrokenError("an unreadable state was written")
        if after.heard != ("" if before is None else before.heard):
            demand(facts.heard < facts.asked, "a retry was honoured twice")
            back = facts.given_back + self._budget.limit
            return facts._replace(heard=facts.heard + 1, given_back=back, disturbed=True)
        if actor.op in {"retry", "cancel"}:
            return facts._replace(disturbed=True, given_back=facts.given_back + self._budget.limit)
        if before is not None and before.state == "dead":
            raise BrokenError("a job that was given up came back by itself")
        if actor.op in {"beat", "fail", "release"}:
            own = before is not None and before.state == "running" and before.attempt == after.attempt
            demand(own, "a worker wrote the state of a job that is not its own")
            # Counted when it is written: its worker may never get the answer.
            back = facts.given_back + (actor.op == "release")
            return facts._replace(judged=facts.judged - {after.attempt}, given_back=back)
        if before is not None and before.state == "running" and before.attempt not in facts.judged:
            demand(
                not self._is_alive(here, before.attempt), "a live worker was robbed that nobody judged stale"
            )
        return facts

    @staticmethod
    def _is_alive(here: Situation, attempt: int) -> bool:
        return any(one.held is not None and one.held.job.attempt == attempt for one in here.actors)

    def _take_answer(self, here: Situation, no: int, answer: Any, store: Store, facts: Facts) -> Situation:
        actor = here.actors[no]
        actor = actor._replace(answers=(*actor.answers, answer), deleted=0)
        done, result = self._step(actor)
        if not done:
            return changed(here, no, actor, store=store, facts=facts)
        return self._complete(here, no, actor, result, store, facts)

    def _complete(
        self, here: Situation, no: int, actor: Actor, result: Any, store: Store, facts: Facts
    ) -> Situation:
        idle = actor._replace(op="", args=(), answers=())
        if actor.op == "claim" and isinstance(result, HeldJob):
            facts = self._check_start(result, store, facts)
            idle = idle._replace(held=result, beats=self._budget.beats)
        elif actor.op == "beat":
            idle = idle._replace(held=result, beats=0 if result is None else idle.beats)
        elif actor.op in {"finish", "fail", "release"}:
            idle = idle._replace(held=None, beats=0)
        if not idle.left and idle.held is None:
            idle = idle._replace(gone=True)
        return changed(here, no, idle, store=store, facts=facts)

    def _check_start(self, held: HeldJob, store: Store, facts: Facts) -> Facts:
        demand(all(key != OUT for key, _ in store) or facts.committed == 0, "a finished job was begun again")
        demand(held.job.attempt not in facts.begun, "two attempts have one number")
        facts = facts._replace(begun=(*facts.begun, held.job.attempt))
        counted = len(facts.begun) - facts.given_back
        demand(counted <= self._budget.limit, "more attempts than allowed")
        return facts

    def _check_rest(self, here: Situation) -> Situation:
        """No actor has anything left to do. One more worker and one more janitor must end the job, and leave
        nothing behind."""
        if self._budget.is_mixed:
            self._check_rest_beside(here)
            return here
        store = dict(here.store)
        undisturbed = not here.facts.disturbed
        begun = begun_before = len(here.facts.begun) - here.facts.given_back
        before = job_in(here.store)
        for turn in range(4 + 2 * self._budget.limit):
            self._run_alone(store, "settle", f"last{turn}")
            if layout.todo(TIER, JOB) in store:
                held = self._run_alone(store, "claim", f"work{turn}", TIER, True)
                if isinstance(held, HeldJob):
                    demand(not here.facts.committed, "a finished job was begun again")
                    begun += 1
                    self._run_alone(store, "finish", f"end{turn}", held)
        if undisturbed and before is not None and not here.facts.committed:
            demand(before.charged == begun_before, "an attempt was counted that nobody began")
        there = job_in(tuple(store.items()))
        if OUT in store:
            demand(set(store) == {OUT}, f"left behind beside a result: {sorted(set(store) - {OUT})}")
        else:
            demand(there is not None and there.state == "dead", "a job was lost")
            demand(set(store) == {STATE, layout.dead(JOB)}, f"left behind beside a dead job: {sorted(store)}")
            if undisturbed:
                demand(begun >= self._budget.limit, "a job was given up before its last attempt")
        return here

    def _check_rest_beside(self, here: Situation) -> None:
        """Our sweep and a worker go on to a fixed point, whose attempts succeed, or all fail."""
        facts, turns = here.facts, 6 + (2 + here.facts.asked) * self._budget.limit
        for ending in ("finish", "fail"):
            store = dict(here.store)
            there = job_in(here.store)
            first = published.come_to_rest(store, turns, ending, self._run_alone)
            published.check_nothing_stranded(store, self._run_alone)
            demand(first is None or not facts.committed, "a finished job was begun again")
            if not self._budget.their_janitors and facts.asked_at >= 0 and not facts.committed:
                is_tried = first is not None or (there is not None and there.attempt > facts.asked_at)
                demand(is_tried, "a retry by a person was undone")
            if first is not None and facts.moved_at == (there.attempt if there else 0) and not facts.asked:
                demand(first.job.priority == published.MOVED_TO, "a change of priority was undone")

    def _run_alone(self, store: dict[str, bytes], op: str, name: str, *given: Any) -> Any:
        """One operation from beginning to end without any other actor; every silent job is stale."""
        operation = self._build_operation(name, op, (*given, 0))
        answer: Any = None
        while True:
            try:
                request = operation.send(answer)
            except StopIteration as done:
                return done.value
            answer = apply(store, request)

    def _next_request(self, actor: Actor) -> StoreRequest:
        done, request = self._step(actor)
        if done:
            raise AssertionError(actor)
        found: StoreRequest = request
        return found

    def _step(self, actor: Actor) -> tuple[bool, Any]:
        """The next step of an operation after these answers: (False, request) or (True, result)."""
        key = (actor.name, actor.op, actor.args, actor.answers)
        known = self._steps.get(key)
        if known is None:
            operation = self._build_operation(actor.name, actor.op, actor.args)
            try:
                request: Any = skip_unused(operation, next(operation), self._unused)
                for answer in actor.answers:
                    request = skip_unused(operation, operation.send(answer), self._unused)
                known = (False, request)
            except StopIteration as done:
                known = (True, done.value)
            self._steps[key] = known
        return known

    def _build_operation(self, name: str, op: str, args: tuple[Any, ...]) -> Operation[Any]:
        return build_operation(name, op, args, self._budget)


LARGE = (
    Budget(workers=2, janitors=1, claims=1),
    Budget(workers=1, janitors=2, claims=2, crashes=0, lost=0, releases=0),
    Budget(workers=1, janitors=1, passes=3, claims=3, crashes=2, lost=0, beats=0, releases=0),
    Budget(workers=2, janitors=2, claims=1, lost=0, whole_deletions=True),
    Budget(workers=2, janitors=2, claims=1, crashes=0, releases=0, beats=0, whole_deletions=True),
    Budget(workers=2, janitors=1, claims=2, lost=0, releases=0, beats=0, whole_deletions=True),
    Budget(workers=2, janitors=1, claims=1, crashes=0, lost=0, releases=0, people=1, whole_deletions=True),
    *published.LARGE,
)


def main() -> int:
    """Explore the budgets that take minutes."""
    failed = False
    for budget in LARGE:
        began = time.monotonic()
        explored = Explorer(budget).run()
        seconds = time.monotonic() - began
        print(f"{explored.situations} situations, {seconds:.0f} s: {budget}", flush=True)  # noqa: T201
        for violation in explored.violations.values():
            failed = True
            print("\n  ".join((violation.what, *violation.trace)), flush=True)  # noqa: T201
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
