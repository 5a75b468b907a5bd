"""procrastinate on PostgreSQL: ten jobs at once, woken by NOTIFY; ended jobs are deleted."""

import asyncio
import logging

import psycopg
from procrastinate import App, PsycopgConnector
from queue_peer import Peer, board, main, sets

JOBS = 10


async def noop(_number: int) -> None:
    board.started()


class Procrastinate(Peer):
    can_bulk = True

    def _make(self) -> None:
        self._app = App(connector=PsycopgConnector(conninfo=self.url))
        self._task = self._app.task(noop, name="noop")

    def open(self) -> None:
        self._make()
        self._runner = asyncio.Runner()

        async def prepare() -> None:
            await self._app.open_async()
            await self._app.schema_manager.apply_schema_async()

        self._runner.run(prepare())
        self._connection = psycopg.connect(self.url, autocommit=True)

    def close(self) -> None:
        self._connection.close()
        self._runner.run(self._app.close_async())
        self._runner.close()

    def send(self, numbers: range) -> None:
        async def work() -> None:
            for number in numbers:
                await self._task.defer_async(_number=number)

        self._runner.run(work())

    def bulk(self, numbers: range) -> None:
        async def work() -> None:
            for part in sets(numbers):
                await self._task.batch_defer_async(*({"_number": number} for number in part))

        self._runner.run(work())

    def left(self) -> int:
        query = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        return self._connection.execute(query).fetchone()[0]

    def work(self) -> None:
        logging.disable(logging.WARNING)
        self._make()

        async def consume() -> None:
            async with self._app.open_async():
                await self._app.run_worker_async(concurrency=JOBS, delete_jobs="always")

        asyncio.run(consume())


if __name__ == "__main__":
    main(Procrastinate)
