"""A crash at exactly the n-th write of a house, before it happens or after it is durable."""

from tests.simulation.shared.chaos import READS, Chaos, Rates
from tests.simulation.shared.kernel import Crash, Kernel


class CrashAt(Chaos):
    """Counts the writes of all houses together; with `every`, each n-th is one."""

    def __init__(
        self, kernel: Kernel, chosen: Rates, number: int, *, after: bool, every: bool = False
    ) -> None:
        super().__init__(kernel, chosen)
        self._number = number
        self._after = after
        self._every = every
        self.writes = 0
        self.crashes = 0

    def before(self, kind: str, name: str, arguments: tuple[object, ...]) -> None:
        if self._counts(kind, name, arguments):
            self.writes += 1
            if not self._after:
                self._crash()

    def behind(self, kind: str, name: str, arguments: tuple[object, ...]) -> None:
        if self._counts(kind, name, arguments) and self._after:
            self._crash()

    @staticmethod
    def _counts(kind: str, name: str, arguments: tuple[object, ...]) -> bool:
        """Of what goes to the store, manifests; not what a client does to the ledger."""
        if kind == "blobs":
            return name == "put" and "manifest" in str(arguments[0])
        return name not in READS and name not in {"open_batch", "record_uploads", "close_batch"}

    def _crash(self) -> None:
        if self.writes % self._number == 0 if self._every else self.writes == self._number:
            self.crashes += 1
            raise Crash
