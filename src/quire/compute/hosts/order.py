"""An order of an asynchronous step, as the pool keeps it from its submission to its end."""

from quire.compute import failures
from quire.compute.failures import AttemptFailure
from quire.compute.pool import frames
from quire.compute.pool.meter import PROGRESS_INTERVAL_SECONDS
from quire.model.cost import NO_COST, Cost
from quire.model.work import AttemptKey, Order, StepCall

NO_PROGRESS = frames.ProgressFrame(0, 0)


class HostedOrder:
    """It may run several times, when a host ends under it through no fault of its own: what those runs cost
    counts. Its attempt fails for the reason in `failure` when it was cancelled for one.
    """

    def __init__(self, call: StepCall, order: Order) -> None:
        self.call = call
        self.order = order
        self.spent: Cost = NO_COST  # in this run
        self.spent_before = NO_COST  # in runs that were not its last one
        self.paid_seconds = 0.0  # its share of the time of its hosts
        self.is_suspect = False  # it was running when a host crashed, and runs alone from now on
        self.is_revoked = False
        self.warning = ""
        self.forget_run()

    def forget_run(self) -> None:
        """As if it had never started; what it has spent is kept."""
        self.spent_before = self.spent_before + self.spent
        self.spent = NO_COST
        self.started: float | None = None  # by the monotonic clock
        self.alive_at = 0.0
        self.progress = NO_PROGRESS
        self.is_computed = False  # its step has ended, and its products are being stored
        self.cancelled_at: float | None = None
        self.failure: AttemptFailure | None = None

    @property
    def attempt_key(self) -> AttemptKey:
        return self.order.attempt_key

    @property
    def is_running(self) -> bool:
        """Does its step run, and has nothing asked it to end?"""
        return self.started is not None and not self.is_computed and self.cancelled_at is None

    def start(self, now: float) -> None:
        self.started = self.alive_at = now

    def excuse(self, seconds: float, now: float) -> None:
        """Another order held up the loop for so long: that time does not count."""
        if self.started is not None:
            self.started = min(now, self.started + seconds)
            self.alive_at = min(now, self.alive_at + seconds)

    def find_exceeded(self, now: float) -> AttemptFailure | None:
        """The time limit that it has exceeded."""
        if self.started is None:
            return None
        limit = self.call.limit_seconds(self.progress.total)
        if now - self.started > limit:
            return failures.of_timeout(self.call, limit)
        # The last progress may be younger than the last one that was sent.
        if 0 < self.call.stall_seconds < now - self.alive_at - PROGRESS_INTERVAL_SECONDS:
            return failures.of_stall(self.call, self.progress.done, self.progress.total)
        return None
