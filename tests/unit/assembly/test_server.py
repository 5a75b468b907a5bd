"""What fails beside the API does not end it."""

import asyncio
import logging

from quire.assembly import server
from quire.settings import load


async def test_messages_go_out_again_after_a_fault_that_nobody_foresaw(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(server, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(server, "RELAY_SECONDS", 0.01)
    stop, again, tries = asyncio.Event(), asyncio.Event(), []

    async def relay(_):
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("unforeseen")
        again.set()

    monkeypatch.setattr(server.Outbox, "send", relay)
    running = asyncio.ensure_future(
        server.run_server(
            load({"QUIRE_HOME": str(tmp_path), "QUIRE_SERVE_PORT": "0"}, tmp_path).settings,
            server.ServeOptions(api_only=True),
            stop,
            started=lambda _: None,
            trouble=lambda _: None,
        )
    )
    waiting = asyncio.ensure_future(again.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=30)
    assert again.is_set()
    assert not running.done()
    stop.set()
    await running
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == [
        "background_work_failed"
    ]
