"""DBOS on PostgreSQL and on SQLite: workflows that do nothing, from a queue asked every few milliseconds."""

import contextlib
import sqlite3
import threading

from dbos import DBOS, DBOSClient
from queue_peer import Peer, board, main

QUEUE = "noop"
POLL_SECONDS = 0.01
UNDONE = ["ENQUEUED", "PENDING"]


@DBOS.workflow()
def noop(_number: int) -> None:
    board.started()


class Dbos(Peer):
    def _launch(self) -> None:
        DBOS(config={"name": "noop", "system_database_url": self._address, "log_level": "ERROR"})
        DBOS.launch()

    @property
    def _address(self) -> str:
        return f"sqlite:///{self.url}" if self.backend == "sqlite" else self.url

    def open(self) -> None:
        if self.backend == "sqlite":
            # The mode stays with the file. DBOS leaves the slower rollback journal on.
            with contextlib.closing(sqlite3.connect(self.url)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
        self._launch()  # makes the tables
        DBOS.register_queue(QUEUE, polling_interval_sec=POLL_SECONDS)
        DBOS.destroy()
        self._client = DBOSClient(system_database_url=self._address, application_name="noop")

    def close(self) -> None:
        self._client.destroy()

    def send(self, numbers: range) -> None:
        for number in numbers:
            self._client.enqueue({"queue_name": QUEUE, "workflow_name": "noop"}, number)

    def left(self) -> int:
        return len(self._client.list_workflows(status=UNDONE, limit=1))

    def work(self) -> None:
        self._launch()
        DBOS.register_queue(QUEUE, polling_interval_sec=POLL_SECONDS)
        threading.Event().wait()


if __name__ == "__main__":
    main(Dbos)
