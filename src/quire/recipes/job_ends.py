"""Who waits in this process for the end of an import. A notification may be missed: whoever waits also looks
now and then.
"""

import asyncio
import weakref


class JobNotifier:
    """Wakes those who wait in this process for the end of an import."""

    def __init__(self) -> None:
        self._events: weakref.WeakValueDictionary[str, asyncio.Event] = weakref.WeakValueDictionary()

    def watch(self, job_id: str) -> asyncio.Event:
        return self._events.setdefault(job_id, asyncio.Event())

    def notify(self, job_id: str) -> None:
        if (event := self._events.get(job_id)) is not None:
            event.set()
