"""huey on Redis and on SQLite: one thread, no results. A task is gone from the queue before it is begun:
whatever the worker had when it was killed is lost.
"""

import logging

from huey import RedisHuey, SqliteHuey
from queue_peer import Peer, board, main

POLL_SECONDS = 0.005  # for SQLite; on Redis it is woken


def noop(_number: int) -> None:
    board.started()


class Huey(Peer):
    def open(self) -> None:
        if self.backend == "sqlite":
            self._huey = SqliteHuey("noop", filename=self.url, results=False)
        else:
            self._huey = RedisHuey("noop", url=self.url, results=False)
        self._task = self._huey.task()(noop)

    def send(self, numbers: range) -> None:
        for number in numbers:
            self._task(number)

    def left(self) -> int:
        return self._huey.pending_count()

    def work(self) -> None:
        self.open()
        logging.disable(logging.WARNING)
        self._huey.create_consumer(
            workers=1, periodic=False, initial_delay=POLL_SECONDS, backoff=1.0, max_delay=POLL_SECONDS
        ).run()


if __name__ == "__main__":
    main(Huey)
