"""Who is at work, and who has died. A member beats; one that has not beaten for long is taken for dead.

No clocks are compared between machines: each watcher counts by its own monotonic clock how long a member's
beat has not changed. Where the house can tell at once whether a process lives (one machine, one folder), it
hands in `gone`, and nobody has to wait.
"""

from collections.abc import Callable

from quire.ledger.port import Member, MemberStore
from quire.model.clock import Clock

BEAT_SECONDS = 5.0
STALE_SECONDS = 30.0

Gone = Callable[[Member], bool | None]  # True: certainly dead; False: certainly alive; None: cannot tell


class Membership:
    def __init__(
        self,
        members: MemberStore,
        clock: Clock,
        *,
        name: str,
        kind: str,
        place: str,
        gone: Gone = lambda _: None,
        beat_seconds: float = BEAT_SECONDS,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        self._members = members
        self._clock = clock
        self._name = name
        self._kind = kind
        self._place = place
        self._gone = gone
        self._beat_seconds = beat_seconds
        self._stale_seconds = stale_seconds
        self._next_beat = 0.0
        self._seen: dict[int, tuple[int, float]] = {}  # member → (beat, since when it has been that)
        self.me = 0

    async def join(self) -> int:
        member = await self._members.add_member(self._name, self._kind, self._place, now=self._clock.now())
        self.me = member.no
        self._next_beat = self._clock.monotonic() + self._beat_seconds
        return member.no

    async def beat(self) -> bool:
        """When it is time. False: we were taken for dead and are not on the list any more."""
        if self._clock.monotonic() < self._next_beat:
            return True
        alive = await self._members.record_heartbeat(self.me, now=self._clock.now())
        self._next_beat = self._clock.monotonic() + self._beat_seconds
        return alive

    @property
    def due(self) -> bool:
        return self._clock.monotonic() >= self._next_beat

    @property
    def seconds_to_beat(self) -> float:
        return max(0.0, self._next_beat - self._clock.monotonic())

    async def dead(self) -> list[Member]:
        """Those that have gone without saying so."""
        moment = self._clock.monotonic()
        members = [member for member in await self._members.list_members() if member.no != self.me]
        self._seen = {no: seen for no, seen in self._seen.items() if no in {member.no for member in members}}
        return [member for member in members if self._is_dead(member, moment)]

    async def bury(self, member: Member) -> None:
        """Its attempts are settled: strike it off."""
        await self._members.remove_member(member.no)
        self._seen.pop(member.no, None)

    async def quit(self) -> None:
        await self._members.remove_member(self.me)

    def _is_dead(self, member: Member, moment: float) -> bool:
        certain = self._gone(member)
        if certain is not None:
            return certain
        beat, since = self._seen.get(member.no, (-1, moment))
        if beat != member.beat:
            self._seen[member.no] = (member.beat, moment)
            return False
        return moment - since >= self._stale_seconds
