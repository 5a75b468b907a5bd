"""RQ on Redis: SimpleWorker, which runs jobs in its own process; no results are kept."""

import logging

from queue_peer import Peer, board, main, sets
from redis import Redis
from rq import Queue, SimpleWorker
from rq.registry import StartedJobRegistry

TASK = "queue_rq.noop"


def noop(_number: int) -> None:
    board.started()


class Rq(Peer):
    can_bulk = True

    def open(self) -> None:
        self._connection = Redis.from_url(self.url)
        self._queue = Queue("noop", connection=self._connection)
        self._running = StartedJobRegistry(queue=self._queue)

    def send(self, numbers: range) -> None:
        for number in numbers:
            self._queue.enqueue(TASK, number, result_ttl=0)

    def bulk(self, numbers: range) -> None:
        for part in sets(numbers):
            self._queue.enqueue_many([Queue.prepare_data(TASK, (one,), result_ttl=0) for one in part])

    def left(self) -> int:
        return self._queue.count + self._running.count

    def work(self) -> None:
        connection = Redis.from_url(self.url)
        logging.disable(logging.WARNING)
        worker = SimpleWorker(
            [Queue("noop", connection=connection)], connection=connection, log_job_description=False
        )
        worker.work(logging_level="ERROR")


if __name__ == "__main__":
    main(Rq)
