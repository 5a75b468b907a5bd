"""The membership of this process on the ledger, and the detection of dead members by their heartbeats.

Clocks of different machines are never compared: each process counts by its own monotonic clock how long a
member's heartbeat has not changed. Where it is known at once whether a process lives (one machine, one
folder), `is_gone` is handed in, and no time is lost waiting.
"""

from collections.abc import Callable

from quire.ledger.port import Member, MemberStore
from quire.model.clock import Clock

BEAT_SECONDS = 5.0
STALE_SECONDS = 30.0
# The kind of members that run no tasks: the former name of the scheduler, which is in databases.
WITHOUT_TASKS = "conductor"

IsGone = Callable[[Member], bool | None]  # True: certainly dead; False: certainly alive; None: cannot tell


class Membership:
    def __init__(
        self,
        members: MemberStore,
        clock: Clock,
        *,
        name: str,
        kind: str,
        place: str,
        is_gone: IsGone = lambda _: None,
        beat_seconds: float = BEAT_SECONDS,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        self._members = members
        self._clock = clock
        self._name = name
        self._kind = kind
        self._place = place
        self._is_gone = is_gone
        self._beat_seconds = beat_seconds
        self._stale_seconds = stale_seconds
        self._next_beat = 0.0
        self._seen: dict[int, tuple[int, float]] = {}  # member → (beat, since when it has been that)
        self.number = 0
        self.live_count = 1  # members that run tasks, this one included, as they were last looked at

    async def join(self) -> int:
        member = await self._members.add_member(self._name, self._kind, self._place, now=self._clock.now())
        self.number = member.no
        self._next_beat = self._clock.monotonic() + self._beat_seconds
        return member.no

    async def beat(self) -> bool:
        """Record a heartbeat when one is due. False: this member was presumed dead and removed."""
        if self._clock.monotonic() < self._next_beat:
            return True
        alive = await self._members.record_heartbeat(self.number, now=self._clock.now())
        self._next_beat = self._clock.monotonic() + self._beat_seconds
        return alive

    @property
    def is_due(self) -> bool:
        return self._clock.monotonic() >= self._next_beat

    @property
    def seconds_to_beat(self) -> float:
        return max(0.0, self._next_beat - self._clock.monotonic())

    async def list_dead(self) -> list[Member]:
        """Members that are gone and did not leave. Counts those that live."""
        moment = self._clock.monotonic()
        members = [member for member in await self._members.list_members() if member.no != self.number]
        self._seen = {no: seen for no, seen in self._seen.items() if no in {member.no for member in members}}
        dead = [member for member in members if self._is_dead(member, moment)]
        working = [member for member in members if member.kind != WITHOUT_TASKS and member not in dead]
        self.live_count = 1 + len(working)
        return dead

    async def remove(self, member: Member) -> None:
        """Remove a dead member. Settle its attempts before."""
        await self._members.remove_member(member.no)
        self._seen.pop(member.no, None)

    async def leave(self) -> None:
        await self._members.remove_member(self.number)

    def _is_dead(self, member: Member, moment: float) -> bool:
        certain = self._is_gone(member)
        if certain is not None:
            return certain
        beat, since = self._seen.get(member.no, (-1, moment))
        if beat != member.beat:
            self._seen[member.no] = (member.beat, moment)
            return False
        return moment - since >= self._stale_seconds
