"""How many tasks of a phase may be claimed: rules over the room that compute has.

Worker processes have room for tasks of any step together. Coroutines have room of their own, by step, since
many of them run in one process. A step may have a limit (`at_once`), and so may the resource that it uses.
A document leaves a phase when all of its branches have ended, so the branch with the least room sets the pace
of the phase. Compute itself starts no more than allowed: what is here decides only how much is claimed.
"""

from collections.abc import Callable, Iterator, Mapping

from quire.model.pipelines import Pipelines
from quire.model.plan import PlanPhase
from quire.model.work import StepCall

# A compute, and the coroutines that share room there; worker processes have room for every step.
RoomGroup = tuple[str, tuple[tuple[str, int], ...]]
RoomOf = Callable[[str, StepCall], int]


class PhaseRooms:
    """The room of one moment. `rooms` is that of worker processes, by compute; `room_of` asks compute for the
    room of one call.
    """

    def __init__(self, rooms: Mapping[str, int], room_of: RoomOf) -> None:
        self._rooms = rooms
        self._room_of = room_of

    def of_phase(self, phase: PlanPhase) -> int:
        """How many tasks of the phase may be claimed."""
        compute = phase.steps[0].compute
        if compute not in self._rooms:
            return 0
        calls = list_calls(phase)
        limited = [call for call in calls if call.asynchronous or call.at_once or call.resource]
        if not limited:
            return self._rooms[compute]
        room = min(self._room_of(compute, call) for call in limited) * len(calls)
        return room if find_group(phase)[1] else min(room, self._rooms[compute])

    def of_group(self, group: RoomGroup, phase: PlanPhase) -> int:
        """How many tasks of all phases that share the group's room may be claimed."""
        return self.of_phase(phase) if group[1] else self._rooms.get(group[0], 0)


def find_group(phase: PlanPhase) -> RoomGroup:
    """Where a phase finds room. One that has both kinds of steps needs worker processes."""
    calls = list_calls(phase)
    steps = [(call.step, call.version) for call in calls if call.asynchronous]
    return phase.steps[0].compute, tuple(sorted(steps)) if len(steps) == len(calls) else ()


def list_calls(phase: PlanPhase) -> list[StepCall]:
    """The calls of a phase; branches of one step are one call."""
    return list({(step.step, step.version): phase.call(step) for step in phase.steps}.values())


def list_coroutine_calls(pipelines: Pipelines) -> Iterator[StepCall]:
    """The calls of all phases that find room among coroutines."""
    for one in pipelines.every():
        for phase in one.phases:
            if find_group(phase)[1]:
                yield from list_calls(phase)
