"""Dramatiq on Redis: many messages fetched ahead, only the middleware that reruns what failed; or all as it
comes.
"""

import os
import sys
import threading

# Read when it is imported; 0 is its default of two for each thread.
os.environ["dramatiq_queue_prefetch"] = "0" if "--plain" in sys.argv else "1000"  # noqa: SIM112 - its name

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries
from queue_peer import Peer, arguments, board, main
from redis import Redis

THREADS = 8  # its default; fewer are no faster


def noop(_number: int) -> None:
    board.started()


class Dramatiq(Peer):
    def open(self) -> None:
        self._broker = RedisBroker(url=self.url, middleware=None if self.given.plain else [Retries()])
        self._task = dramatiq.actor(noop, broker=self._broker)
        self._client = Redis.from_url(self.url)

    def send(self, numbers: range) -> None:
        for number in numbers:
            self._task.send(number)

    def left(self) -> int:
        return self._client.hlen("dramatiq:default.msgs")

    def work(self) -> None:
        self.open()
        dramatiq.Worker(self._broker, worker_threads=THREADS).start()
        threading.Event().wait()


if __name__ == "__main__":
    parser = arguments()
    parser.add_argument("--plain", action="store_true", help="all as it comes")
    main(Dramatiq, parser)
