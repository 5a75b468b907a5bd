"""Reads forms with files as they arrive: each file and the number of files within limits, nothing beyond.

Files go to a folder while they are counted, so that large ones take no memory.
"""

import asyncio
import hashlib
from pathlib import Path

from msgspec import Struct, field
from multipart import (
    MultipartError,
    MultipartSegment,
    ParserLimitReached,
    PushMultipartParser,
    parse_options_header,
)

from quire.api.routing import BODY_SECONDS, ApiRequest
from quire.model.errors import Reject

MAX_FIELD_BYTES = 4096
MAX_PARTS = 20
OVERHEAD_BYTES = 64 << 10


class FormFile(Struct, frozen=True, kw_only=True):
    name: str
    path: Path
    digest: str  # SHA-256, in hexadecimal


class ReadForm(Struct, kw_only=True):
    """`files` are those of the one field that was asked for."""

    files: list[FormFile] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)


async def read_form(
    request: ApiRequest, folder: Path, *, field_name: str, max_files: int, max_file_bytes: int
) -> ReadForm:
    """Files are written to `folder`, which is empty. Raises Reject: `bad_request` for what is no such form
    or has too many files, `too_large`.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get("boundary", "")
    if kind != "multipart/form-data" or not boundary:
        raise Reject("Send the pictures as multipart/form-data", code="bad_request")
    reader = _FormReader(folder, field_name, max_files, max_file_bytes)
    most, read = max_files * max_file_bytes + OVERHEAD_BYTES, 0
    try:
        with PushMultipartParser(boundary, max_segment_count=MAX_PARTS, max_header_size=2048) as parser:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in request.stream():
                    read += len(piece)
                    if read > most:
                        raise _too_large(max_file_bytes)
                    for event in parser.parse(piece):
                        reader.take(event)
    except TimeoutError as error:
        raise Reject("The body did not arrive in time; send it faster", code="slow_client") from error
    except ParserLimitReached as error:
        raise Reject("The form has too many parts", code="bad_request") from error
    except MultipartError as error:
        raise Reject("The form cannot be read", code="bad_request") from error
    return reader.form


class _FormReader:
    def __init__(self, folder: Path, field_name: str, max_files: int, max_file_bytes: int) -> None:
        self.form = ReadForm()
        self._folder = folder
        self._field_name = field_name
        self._max_files = max_files
        self._max_file_bytes = max_file_bytes
        self._segment: MultipartSegment | None = None
        self._data = bytearray()  # of a field
        self._size = 0
        self._digest = hashlib.sha256()

    def take(self, event: MultipartSegment | bytes | bytearray | None) -> None:
        if event is None:
            self._end()
        elif isinstance(event, MultipartSegment):
            self._segment, self._data, self._size = event, bytearray(), 0
            self._digest = hashlib.sha256()
            if self._is_wanted() and len(self.form.files) >= self._max_files:
                raise Reject(f"Send at most {self._max_files} pictures", code="bad_request")
        else:
            self._size += len(event)
            if self._size > (self._max_file_bytes if self._is_wanted() else MAX_FIELD_BYTES):
                raise _too_large(self._max_file_bytes)
            self._keep(event)

    def _keep(self, piece: bytes | bytearray) -> None:
        if not self._is_wanted():
            self._data += piece
            return
        self._digest.update(piece)
        with self._path().open("ab") as file:
            file.write(piece)

    def _path(self) -> Path:
        return self._folder / f"upload-{len(self.form.files)}"

    def _is_wanted(self) -> bool:
        return self._segment is not None and self._segment.name == self._field_name

    def _end(self) -> None:
        segment = self._segment
        if segment is None:
            return
        if self._is_wanted():
            name = (segment.filename or "").replace("\\", "/").rpartition("/")[2]
            self._path().touch()
            self.form.files.append(FormFile(name=name, path=self._path(), digest=self._digest.hexdigest()))
        elif segment.filename is None:
            self.form.fields[segment.name] = self._data.decode("utf-8", "replace")
        self._segment = None


def _too_large(max_file_bytes: int) -> Reject:
    return Reject(f"A picture has at most {max_file_bytes} bytes", code="too_large")
