"""How many orders of a step may run at once: rules over counts, named resources and pauses.

Promises: a step never has more than its own limit, and steps with the same resource, coroutines and plain
functions together, never more than that resource's; nothing that uses a paused resource starts. Pure: knows
calls and moments, no processes.
"""

from collections import Counter
from collections.abc import Mapping

from quire.model.work import Outcome, Report, StepCall

DEFAULT_AT_ONCE = 100  # of coroutines; plain functions have as many as there are processes
UNLIMITED = 1 << 30
LONGEST_PAUSE_SECONDS = 3600.0  # a server that names a longer one is asked again after this time


class CallCounts:
    """Orders by their step and by their resource."""

    def __init__(self) -> None:
        self._steps: Counter[tuple[str, int]] = Counter()
        self._resources: Counter[str] = Counter()

    def add(self, call: StepCall, count: int = 1) -> None:
        self._steps[call.step, call.version] += count
        if call.resource:
            self._resources[call.resource] += count

    def of_step(self, call: StepCall) -> int:
        return self._steps[call.step, call.version]

    def of_resource(self, resource: str) -> int:
        return self._resources[resource]


class RunLimits:
    def __init__(self, resources: Mapping[str, int]) -> None:
        """`resources` is looked at each time, so that its owner may change it. One that is missing there has
        no limit.
        """
        self._resources = resources
        self._paused: dict[str, float] = {}

    def room(
        self, call: StepCall, counts: CallCounts, now: float, elsewhere: CallCounts | None = None
    ) -> int:
        """How many more orders of this call may there be beside those that were counted? `elsewhere` are
        orders of other steps, which may use the same resource.
        """
        if self.is_paused(call.resource, now):
            return 0
        limit = call.at_once or (DEFAULT_AT_ONCE if call.asynchronous else UNLIMITED)
        room = limit - counts.of_step(call)
        limit = self._resources.get(call.resource, UNLIMITED) if call.resource else UNLIMITED
        if limit < UNLIMITED:
            used = counts.of_resource(call.resource)
            used += elsewhere.of_resource(call.resource) if elsewhere is not None else 0
            room = min(room, limit - used)
        return max(0, room)

    def pause(self, resource: str, seconds: float, now: float) -> None:
        """Start nothing that uses this resource for so long. The longest of several pauses counts."""
        if resource and seconds > 0:
            until = now + min(seconds, LONGEST_PAUSE_SECONDS)
            self._paused[resource] = max(until, self._paused.get(resource, until))

    def note_report(self, call: StepCall, report: Report, now: float) -> None:
        """A step that asks to be tried later (`TryLater`) speaks for all that use its resource."""
        if report.outcome is Outcome.ERRED:
            self.pause(call.resource, report.delay_seconds, now)

    def is_paused(self, resource: str, now: float) -> bool:
        return bool(self._paused) and self._paused.get(resource, now) > now

    def end_pauses(self, now: float) -> bool:
        """Forget pauses that are over; True when there was one."""
        over = [resource for resource, until in self._paused.items() if until <= now]
        for resource in over:
            del self._paused[resource]
        return bool(over)
