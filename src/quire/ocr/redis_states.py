"""States of OCR jobs on Redis, under the keys and for the time that the published service keeps them; and
whether a workflow was called off.

Needs the extra `quire[redis]`. Must not know: what a state says.
"""

from quire.queues.redis_server import CONNECTIONS, TIMEOUT_SECONDS, Server

_SCRIPTS = "quire.queues.redis_lists.lua"  # none of them is used: plain commands do


class RedisJobStates:
    """Connects when it is first used; end with `await close()`."""

    def __init__(
        self, url: str, *, connections: int = CONNECTIONS, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._server = Server(url, scripts=_SCRIPTS, connections=connections, timeout_seconds=timeout_seconds)

    async def close(self) -> None:
        await self._server.close()

    async def save(self, job_id: str, state: bytes, *, seconds: float) -> None:
        await self._server.ask("SET", f"ocr_job:{job_id}", state, "EX", max(1, round(seconds)))

    async def load(self, job_id: str) -> bytes | None:
        found: bytes | None = await self._server.ask("GET", f"ocr_job:{job_id}")
        return found

    async def mark_cancelled(self, workflow_id: str, *, seconds: float) -> None:
        await self._server.ask("SET", f"cancelled:{workflow_id}", b"1", "EX", max(1, round(seconds)))

    async def is_cancelled(self, workflow_id: str) -> bool:
        return bool(await self._server.ask("EXISTS", f"cancelled:{workflow_id}"))
