"""arq on Redis: asks every few milliseconds, a hundred jobs at once, no results."""

import asyncio
import logging

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker
from queue_peer import Peer, board, main

JOBS = 100
POLL_SECONDS = 0.005


async def noop(_context: dict[str, object], _number: int) -> None:
    board.started()


class Arq(Peer):
    def open(self) -> None:
        self._runner = asyncio.Runner()
        self._pool = self._runner.run(create_pool(RedisSettings.from_dsn(self.url)))

    def close(self) -> None:
        self._runner.run(self._pool.aclose())
        self._runner.close()

    def send(self, numbers: range) -> None:
        async def work() -> None:
            for number in numbers:
                await self._pool.enqueue_job("noop", number)

        self._runner.run(work())

    def left(self) -> int:
        return self._runner.run(self._pool.zcard("arq:queue"))

    def work(self) -> None:
        logging.disable(logging.WARNING)
        asyncio.set_event_loop(asyncio.new_event_loop())
        Worker(
            [noop],
            redis_settings=RedisSettings.from_dsn(self.url),
            max_jobs=JOBS,
            poll_delay=POLL_SECONDS,
            keep_result=0,
            log_results=False,
        ).run()


if __name__ == "__main__":
    main(Arq)
