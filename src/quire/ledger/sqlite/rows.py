"""Between rows and values: the named queries, and what each column means."""

import json
import sqlite3
from typing import Any

import msgspec

from quire.database.sql import queries
from quire.model.batch import Batch, Position, Stage
from quire.model.errors import Missing
from quire.model.files import File
from quire.model.ids import BatchId
from quire.model.work import StepResult

SQL = queries("quire.ledger.sql", "sqlite/queries.sql")

_result_decoder = msgspec.msgpack.Decoder(StepResult)
_encoder = msgspec.msgpack.Encoder()
EMPTY_RESULT = StepResult()
_EMPTY_BYTES = _encoder.encode(EMPTY_RESULT)


def encode_result(result: StepResult | None) -> bytes | None:
    """None for an empty result: most rows of fact-less steps then need no blob at all."""
    if result is None or result == EMPTY_RESULT:
        return None
    return _encoder.encode(result)


def decode_result(blob: bytes | None) -> StepResult:
    return EMPTY_RESULT if blob is None else _result_decoder.decode(blob)


def load_batch(connection: sqlite3.Connection, no: int) -> Batch:
    return batch_of(connection.execute(SQL["batch_by_no"], (no,)).fetchone(), no)


def batch_of(row: tuple[Any, ...] | None, name: object) -> Batch:
    if row is None:
        raise Missing(f"there is no batch {name}", code="unknown_batch")
    return Batch(
        no=row[0],
        id=BatchId(row[1]),
        pipeline=row[2],
        pipeline_version=row[3],
        position=Position(Stage(row[4]), row[5], row[6]),
        status=row[7],
        manifest_key=row[8],
        total_files=row[9],
        last_file=row[10],
        last_task=row[11],
        created_at=row[12],
        updated_at=row[13],
        completed_at=row[14],
        error=row[15],
        plan=row[16],
        delivered_at=row[17],
    )


def file_of(row: tuple[Any, ...], at: int) -> File:
    """A file from ten columns beginning at `at`: key, path, name, size, content_type, digest, cid,
    source_file, tags, config.
    """
    tags, config = row[at + 8], row[at + 9]
    return File(
        key=row[at],
        path=row[at + 1],
        name=row[at + 2],
        size=row[at + 3],
        content_type=row[at + 4],
        digest=row[at + 5],
        cid=row[at + 6],
        source_file=row[at + 7],
        # Most files have neither; decoding only what is there is worth it at thousands per second.
        tags=() if tags == "[]" else tuple(json.loads(tags)),
        processing_config={} if config == "{}" else json.loads(config),
    )


def file_columns(file: File) -> tuple[Any, ...]:
    """The columns from path on, as `insert_file` wants them."""
    return (
        file.path,
        file.path.casefold(),
        file.name,
        file.key,
        file.size,
        file.content_type,
        file.digest,
        file.cid,
        file.source_file,
        tags_column(file.tags),
        json.dumps(file.processing_config) if file.processing_config else "{}",
    )


def tags_column(tags: tuple[str, ...]) -> str:
    return json.dumps(tags) if tags else "[]"


def note(
    connection: sqlite3.Connection, batch_no: int, at: float, kind: str, data: dict[str, object]
) -> None:
    connection.execute(SQL["insert_event"], (batch_no, at, kind, json.dumps(data)))
