"""Who is at work, who has died: by beats alone, or at once where the house can tell."""

from quire.engine.membership import Membership
from quire.ledger.port import Member
from quire.testing.time import FakeClock


class List:
    """A crew in memory."""

    def __init__(self):
        self.members = {}

    async def add_member(self, name, kind, place, *, now):
        no = len(self.members) + 1
        self.members[no] = Member(no=no, name=name, kind=kind, place=place, beat=0, enlisted_at=now)
        return self.members[no]

    async def record_heartbeat(self, member, *, now):
        if member not in self.members:
            return False
        one = self.members[member]
        self.members[member] = Member(
            no=one.no, name=one.name, kind=one.kind, place=one.place, beat=one.beat + 1, enlisted_at=now
        )
        return True

    async def list_members(self):
        return list(self.members.values())

    async def remove_member(self, member):
        self.members.pop(member, None)


def roster(crew, clock, name="me", **changes):
    known = {"kind": "run", "place": "here:1", "beat_seconds": 5.0, "stale_seconds": 30.0}
    return Membership(crew, clock, name=name, **(known | changes))


async def test_one_that_beats_is_alive_however_long_it_takes():
    crew, clock = List(), FakeClock()
    mine, other = roster(crew, clock), roster(crew, clock, "other")
    await mine.join()
    await other.join()
    for _ in range(20):
        clock.advance(10)
        assert await other.beat()
        assert await mine.list_dead() == []


async def test_one_that_is_silent_for_long_is_dead_and_only_then():
    crew, clock = List(), FakeClock()
    mine, other = roster(crew, clock), roster(crew, clock, "other")
    await mine.join()
    await other.join()
    assert await mine.list_dead() == []
    clock.advance(29)
    assert await mine.list_dead() == []
    clock.advance(1)
    (gone,) = await mine.list_dead()
    assert gone.name == "other"
    await mine.remove(gone)
    assert await mine.list_dead() == []
    clock.advance(5)
    assert not await other.beat()


async def test_a_new_watcher_gives_everybody_the_whole_time():
    crew, clock = List(), FakeClock()
    other = roster(crew, clock, "other")
    await other.join()
    clock.advance(1000)
    mine = roster(crew, clock)
    await mine.join()
    assert await mine.list_dead() == []


async def test_where_the_house_can_tell_nobody_waits():
    crew, clock = List(), FakeClock()
    await roster(crew, clock, "dead").join()
    await roster(crew, clock, "alive").join()
    mine = roster(crew, clock, is_gone=lambda member: member.name == "dead")
    await mine.join()
    assert [member.name for member in await mine.list_dead()] == ["dead"]
    clock.advance(10_000)
    assert [member.name for member in await mine.list_dead()] == ["dead"]


async def test_beats_are_due_in_time():
    crew, clock = List(), FakeClock()
    mine = roster(crew, clock)
    await mine.join()
    assert not mine.is_due
    assert mine.seconds_to_beat == 5.0
    clock.advance(5)
    assert mine.is_due
    assert await mine.beat()
    assert crew.members[1].beat == 1
    assert not mine.is_due


async def test_members_that_run_tasks_are_counted_while_they_live():
    crew, clock = List(), FakeClock()
    mine, other = roster(crew, clock), roster(crew, clock, "other")
    scheduler = roster(crew, clock, "third", kind="conductor")
    await mine.join()
    assert mine.live_count == 1
    await other.join()
    await scheduler.join()
    assert await mine.list_dead() == []
    assert mine.live_count == 2
    clock.advance(30)
    assert len(await mine.list_dead()) == 2
    assert mine.live_count == 1
