"""Celery on Redis: pool solo, late acknowledgement, no results, the chatter of the worker off."""

from celery import Celery
from queue_peer import Peer, board, main
from redis import Redis

app = Celery("queue_celery")
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=100,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 3600},
)


@app.task(name="noop")
def noop(_number: int) -> None:
    board.started()


class CeleryPeer(Peer):
    def open(self) -> None:
        app.conf.update(broker_url=self.url)
        self._client = Redis.from_url(self.url)
        self._producer = app.producer_pool.acquire(block=True)

    def close(self) -> None:
        self._producer.release()
        app.close()

    def send(self, numbers: range) -> None:
        for number in numbers:
            noop.apply_async((number,), producer=self._producer)

    def left(self) -> int:
        return self._client.llen("celery") + self._client.hlen("unacked")

    def work(self) -> None:
        app.conf.update(broker_url=self.url)
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        app.worker_main(["worker", "--pool", "solo", "--loglevel", "ERROR", *quiet])


if __name__ == "__main__":
    main(CeleryPeer)
