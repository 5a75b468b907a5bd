"""Forms with files, as they arrive."""

import hashlib

import pytest

from quire.api.form_parts import MAX_FIELD_BYTES, read_form
from quire.model.errors import Reject

HEADER = "--b\r\nContent-Disposition: form-data; name={}\r\n\r\n"


def part(name: str, data: bytes, filename: str | None = None) -> bytes:
    quoted = f'"{name}"' + ("" if filename is None else f'; filename="{filename}"')
    return HEADER.format(quoted).encode() + data + b"\r\n"


class Arriving:
    """A request whose body comes in small pieces."""

    def __init__(self, body: bytes) -> None:
        self.headers = {"content-type": "multipart/form-data; boundary=b"}
        self._body = body

    async def stream(self):
        for at in range(0, len(self._body), 7):
            yield self._body[at : at + 7]


async def read(folder, *parts: bytes, **limits: int):
    known = {"field_name": "images", "max_files": 2, "max_file_bytes": 100}
    return await read_form(Arriving(b"".join(parts) + b"--b--\r\n"), folder, **(known | limits))


async def test_files_are_written_while_they_arrive_and_fields_are_read(tmp_path):
    form = await read(
        tmp_path, part("images", b"one" * 20, "a.jpg"), part("hint", b"Soup"), part("images", b"", "../b.jpg")
    )
    assert [one.name for one in form.files] == ["a.jpg", "b.jpg"]
    assert [one.path.read_bytes() for one in form.files] == [b"one" * 20, b""]
    assert form.files[0].digest == hashlib.sha256(b"one" * 20).hexdigest()
    assert {one.path.parent for one in form.files} == {tmp_path}
    assert form.fields == {"hint": "Soup"}


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([part("images", b"x" * 101, "a.jpg")], "too_large"),
        ([part("hint", b"x" * (MAX_FIELD_BYTES + 1))], "too_large"),
        ([part("images", b"x", "a.jpg")] * 3, "bad_request"),
        ([part("hint", b"x")] * 30, "bad_request"),
    ],
    ids=["a large file", "a long field", "too many files", "too many parts"],
)
async def test_nothing_beyond_the_limits_is_kept(tmp_path, parts, code):
    with pytest.raises(Reject) as caught:
        await read(tmp_path, *parts, max_file_bytes=10_000 if code == "bad_request" else 100)
    assert caught.value.code == code
    assert sum(one.stat().st_size for one in tmp_path.iterdir()) <= 100
