"""Whoever settles tasks of a batch claims its next ones in the same transaction, when no other batch has
anything to do: one transaction instead of three, and documents go on where they are.

That a batch is alone is what the last look at all batches has shown; it is believed for a moment, so another
one waits no longer than that.
"""

from collections.abc import Sequence

from msgspec import Struct

from quire.engine.rooms import PhaseRooms, RoomGroup, find_group
from quire.ledger.flow_values import ClaimRequest, PhaseLimit
from quire.model.batch import Batch
from quire.model.clock import Clock
from quire.model.plan import Plan

BELIEVED_SECONDS = 0.5


class Continuation(Struct, frozen=True):
    """What is claimed when a task of this batch is settled."""

    batch: Batch
    plan: Plan
    request: ClaimRequest


class Continuations:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alone: tuple[Batch, Plan, RoomGroup] | None = None
        self._until = 0.0

    def note(self, batches: Sequence[tuple[Batch, Plan]]) -> None:
        """These batches have something to do, and no others."""
        self._alone = None
        if len(batches) == 1:
            batch, plan = batches[0]
            group = _find_only_group(plan)
            self._alone = None if group is None else (batch, plan, group)
            self._until = self._clock.monotonic() + BELIEVED_SECONDS

    def find(self, batch_no: int, member: int, rooms: PhaseRooms) -> Continuation | None:
        """What may be claimed with a settlement of this batch; None: nothing before the next look at all."""
        if self._alone is None or self._clock.monotonic() >= self._until:
            return None
        batch, plan, group = self._alone
        if batch.no != batch_no:
            return None
        limits = [
            PhaseLimit(number, room)
            for number, phase in reversed(list(enumerate(plan.phases, start=1)))
            if not phase.waits and (room := rooms.of_phase(phase))
        ]
        if not limits:
            return None
        most = rooms.of_group(group, plan.phases[limits[0].phase - 1])
        return Continuation(batch, plan, ClaimRequest(member, most, tuple(limits))) if most else None


def _find_only_group(plan: Plan) -> RoomGroup | None:
    """Where all tasks on documents find room together. None: there are several places, or a phase has a pace
    of its own.
    """
    phases = [phase for phase in plan.phases if not phase.waits]
    groups = {find_group(phase) for phase in phases}
    if len(groups) != 1 or any(phase.pace.at_once or phase.pace.between_seconds for phase in phases):
        return None
    return groups.pop()
