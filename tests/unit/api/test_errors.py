"""What is told to those who ask, and what is not."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from quire.api import batches
from quire.api.errors import AWAY, build_error_response
from quire.batches.lines import BatchEvent
from quire.model.errors import Missing, Retry, Unavailable
from quire.testing.time import FakeClock


@pytest.mark.parametrize("contract", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        Unavailable("PostgreSQL db.internal:5432/quire cannot be reached"),
        Retry("no answer from http://minio.internal:9000", code="storage_unavailable", delay_seconds=30.0),
    ],
)
def test_where_the_house_keeps_its_things_is_not_told(error, contract):
    made = build_error_response(error, contract=contract)
    said = json.loads(made.content)
    assert made.status_code == 503
    assert int(made.headers["retry-after"]) >= 1
    assert said["error" if contract else "detail"] == AWAY


def test_other_reasons_to_come_again_are_told():
    made = build_error_response(Retry("the files keep changing", delay_seconds=1), contract=True)
    assert json.loads(made.content) == {"error": "the files keep changing"}
    assert build_error_response(Missing("Batch not found"), contract=True).status_code == 404


async def test_who_follows_while_the_database_goes_away_is_let_go_quietly(monkeypatch):
    async def watch(*_, **__):
        yield BatchEvent(no=7, at="2026-01-01T00:00:00.000Z", kind="batch_started", data={})
        raise Unavailable("away")

    monkeypatch.setattr(batches, "watch_batch", watch)
    context = SimpleNamespace(
        batches=SimpleNamespace(clock=FakeClock()), streams=set(), stopping=asyncio.Event()
    )
    said = b"".join([piece async for piece in batches._write_events(context, "01A", 0)])
    assert b"id: 7\nevent: batch_started" in said
    assert b"event: end" not in said
    assert context.streams == set()
