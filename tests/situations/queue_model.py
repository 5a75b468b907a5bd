"""Any sequence of calls, played to an adapter and to the queues in memory: both must answer the same.

`plays()` draws a sequence, `played` plays it in a queue that was not used before. Times are few and round, so
that much becomes due at the same moment.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from quire.model.errors import Lost
from quire.queues.port import DEDUPE_SECONDS, DeadLetter, DeadLetterFilter, LeasedMessage, Message, QueueStore
from quire.testing.memory_queues import MemoryQueues

Call = tuple[str, dict[str, Any]]
LeasePair = tuple[LeasedMessage, LeasedMessage]  # the adapter's and the model's

IDS = tuple("abcdef")
START = 1_000_020.0  # a whole minute
_CHOSEN = st.sampled_from(
    [
        DeadLetterFilter(),
        DeadLetterFilter(ids=["a", "b", "zz"]),
        DeadLetterFilter(error_class="bad"),
        DeadLetterFilter(text="ODY B"),
        DeadLetterFilter(text="OOPS"),
    ]
)
_SECONDS = st.sampled_from([0.0, 1.0, 2.0, 5.0])
_PICKS = st.lists(st.integers(0, 30), min_size=1, max_size=4)
_MESSAGE = st.builds(
    lambda name, priority: Message(id=name, body=f"body {name}".encode(), priority=priority),
    st.sampled_from(IDS),
    st.integers(1, 5),
)


def plays() -> st.SearchStrategy[list[Call]]:
    """Sequences of calls. Leases are picked by number from all that were ever given: most are over."""
    calls: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "send": {"messages": st.lists(_MESSAGE, max_size=5), "delay_seconds": _SECONDS},
        "lease": {"limit": st.integers(0, 4), "seconds": _SECONDS, "worker": st.sampled_from(["", "w"])},
        "pass": {"seconds": st.sampled_from([0.0, 1.0, 1.0, 2.0, 60.0, 3600.0, DEDUPE_SECONDS])},
        "extend": {"picks": _PICKS, "seconds": _SECONDS},
        "acknowledge": {"picks": _PICKS},
        "release": {
            "pick": st.integers(0, 30),
            "delay_seconds": _SECONDS,
            "error": st.just("oops"),
            "counted": st.booleans(),
        },
        "dead_letter": {
            "pick": st.integers(0, 30),
            "reason": st.just("Oops"),
            "error_class": st.sampled_from(["", "bad"]),
        },
        "replay": {
            "chosen": _CHOSEN,
            "limit": st.integers(0, 3),
            "per_second": st.sampled_from([0.0, 0.5, 1.0]),
        },
        "discard": {"chosen": _CHOSEN, "limit": st.integers(0, 3)},
        "purge": {},
        "sweep": {},
    }
    # What makes a life of a message comes more often than what ends all of them.
    often = [
        "send",
        "lease",
        "lease",
        "pass",
        "acknowledge",
        "release",
        "dead_letter",
        "dead_letter",
        "replay",
    ]
    return st.lists(
        st.sampled_from([*often, *calls]).flatmap(
            lambda name: st.tuples(st.just(name), st.fixed_dictionaries(calls[name]))
        ),
        min_size=20,  # short lists would be drawn almost always
        max_size=60,
    )


async def played(queues: QueueStore, calls: list[Call], *, queue: str) -> None:
    """Raises AssertionError at the first answer that is not the model's."""
    await _Play(queues, queue).run(calls)


class _Play:
    def __init__(self, queues: QueueStore, queue: str) -> None:
        self._both: tuple[QueueStore, QueueStore] = (queues, MemoryQueues())
        self._queue = queue
        self._now = START
        self._leases: list[LeasePair] = []

    async def run(self, calls: list[Call]) -> None:
        for name, values in calls:
            if name == "pass":
                self._now += values["seconds"]
            elif name == "lease":
                await self._lease(values)
            elif name in {"extend", "acknowledge", "release", "dead_letter"}:
                await self._on_leases(name, dict(values))
            elif name == "sweep":
                # It is about all queues, and others have left something too.
                for one in self._both:
                    await one.sweep(now=self._now)
            else:
                await self._ask(name, values)
            await self._look()

    async def _ask(self, name: str, values: dict[str, Any]) -> None:
        await self._same(lambda one: getattr(one, name)(self._queue, now=self._now, **values))

    async def _lease(self, values: dict[str, Any]) -> None:
        ours, models = [await one.lease(self._queue, now=self._now, **values) for one in self._both]
        assert [_shown(one) for one in ours] == [_shown(one) for one in models]
        self._leases += zip(ours, models, strict=True)

    async def _on_leases(self, name: str, values: dict[str, Any]) -> None:
        if not self._leases:
            return
        # Counted from the last one: those are the ones that are still out.
        picks = values.pop("picks", None)
        single = picks is None
        chosen = {-1 - pick % len(self._leases) for pick in picks or [values.pop("pick")]}
        leases = [self._leases[place] for place in sorted(chosen)]
        answers = []
        for side, one in enumerate(self._both):
            leased = [pair[side] for pair in leases]
            try:
                await getattr(one, name)(leased[0] if single else leased, now=self._now, **values)
            except Lost as error:
                answers.append(sorted(error.ids))
            else:
                answers.append([])
        assert answers[0] == answers[1]

    async def _look(self) -> None:
        queue, now = self._queue, self._now
        await self._same(lambda one: one.next_due(queue, now=now))
        await self._same(lambda one: one.peek(queue, limit=9, now=now))
        await self._same(lambda one: one.counters(queue))
        await self._same(lambda one: one.counters(queue, since=now - 120))
        await self._same(lambda one: one.count_dead_letters(queue))
        await self._same(lambda one: one.depth(queue, now=now))
        await self._same(lambda one: _dead(one, queue))

    async def _same(self, ask: Callable[[QueueStore], Awaitable[object]]) -> None:
        ours, models = [await ask(one) for one in self._both]
        assert ours == models


def _shown(leased: LeasedMessage) -> LeasedMessage:
    return structs.replace(leased, token="")


async def _dead(queues: QueueStore, queue: str) -> list[DeadLetter]:
    """Their numbers are each backend's own; which delivery a replay names too."""
    letters = await queues.list_dead_letters(queue, limit=99)
    assert [one.no for one in letters] == sorted({one.no for one in letters})
    return [
        structs.replace(
            one,
            no=0,
            history=tuple(
                structs.replace(trial, delivery=0) if trial.ending == "replayed" else trial
                for trial in one.history
            ),
        )
        for one in letters
    ]
