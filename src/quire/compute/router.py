"""Several computes at once: each phase runs on the one that it names.

Promise: that of every compute, for all of them together. Must not know: any kind of compute.
"""

import asyncio
from collections.abc import Mapping

from quire.model.errors import Misconfigured
from quire.model.work import Compute, Order, Report, StepCall


class ComputeRouter:
    def __init__(self, computes: Mapping[str, Compute]) -> None:
        self._computes = dict(computes)

    def capacity(self, compute: str = "", call: StepCall | None = None) -> int:
        found = self._computes.get(compute)
        return 0 if found is None else found.capacity(compute, call)

    async def submit(self, call: StepCall, orders: list[Order]) -> None:
        found = self._computes.get(call.compute)
        if found is None:
            raise Misconfigured(f"there is no compute {call.compute!r} here, so it has no capacity either")
        await found.submit(call, orders)

    def take_reports(self) -> list[Report]:
        return [report for compute in self._computes.values() for report in compute.take_reports()]

    def revoke(self, batch_no: int) -> None:
        for compute in self._computes.values():
            compute.revoke(batch_no)

    async def stop(self, grace_seconds: float) -> list[Order]:
        unstarted = await asyncio.gather(
            *(compute.stop(grace_seconds) for compute in self._computes.values())
        )
        return [order for orders in unstarted for order in orders]
