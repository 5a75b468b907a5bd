"""taskiq on Redis Streams: one receiver, acknowledged after the task, no results."""

import asyncio

from queue_peer import Peer, board, main
from redis import Redis
from taskiq.acks import AcknowledgeType
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker


async def noop(_number: int) -> None:
    board.started()


class Taskiq(Peer):
    def _make(self) -> None:
        # From the beginning of the stream: the worker comes after the messages.
        self._broker = RedisStreamBroker(self.url, consumer_id="0", xread_count=1000)
        self._task = self._broker.task(task_name="noop")(noop)

    def open(self) -> None:
        self._make()
        self._client = Redis.from_url(self.url)
        self._runner = asyncio.Runner()
        self._runner.run(self._broker.startup())

    def close(self) -> None:
        self._runner.run(self._broker.shutdown())
        self._runner.close()

    def send(self, numbers: range) -> None:
        async def work() -> None:
            for number in numbers:
                await self._task.kiq(number)

        self._runner.run(work())

    def left(self) -> int:
        return self._client.xpending("taskiq", "taskiq")["pending"]

    def work(self) -> None:
        self._make()
        self._broker.is_worker_process = True
        asyncio.run(
            run_receiver_task(
                self._broker,
                run_startup=True,
                validate_params=False,
                max_async_tasks=100,
                max_prefetch=1000,
                ack_time=AcknowledgeType.WHEN_EXECUTED,
            )
        )


if __name__ == "__main__":
    main(Taskiq)
