"""pgqueuer on PostgreSQL: large batches over asyncpg on uvloop; it stores ends in batches of that size."""

import asyncio

import asyncpg
import psycopg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from queue_peer import Peer, board, main, sets

BATCH = 200  # between 100 and 1,000 there is no difference to speak of


class Pgqueuer(Peer):
    can_bulk = True

    def open(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._line = self._runner.run(asyncpg.connect(self.url))
        self._queries = Queries(AsyncpgDriver(self._line))
        self._runner.run(self._queries.install())
        self._connection = psycopg.connect(self.url, autocommit=True)

    def close(self) -> None:
        self._connection.close()
        self._runner.run(self._line.close())
        self._runner.close()

    def send(self, numbers: range) -> None:
        async def work() -> None:
            for number in numbers:
                await self._queries.enqueue("noop", b"%d" % number)

        self._runner.run(work())

    def bulk(self, numbers: range) -> None:
        async def work() -> None:
            for part in sets(numbers):
                bodies = [b"%d" % number for number in part]
                await self._queries.enqueue(["noop"] * len(part), bodies, [0] * len(part))

        self._runner.run(work())

    def left(self) -> int:
        return self._connection.execute("SELECT count(*) FROM pgqueuer").fetchone()[0]

    def work(self) -> None:
        async def consume() -> None:
            queuer = PgQueuer.from_asyncpg_connection(await asyncpg.connect(self.url))

            @queuer.entrypoint("noop")
            async def noop(_job) -> None:
                board.started()

            await queuer.run(batch_size=BATCH)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(consume())


if __name__ == "__main__":
    main(Pgqueuer)
