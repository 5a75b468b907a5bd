"""A batch of 20,000 files is closed while its client waits, and its status can be read whole."""

import pytest
from tests.acceptance.ingest.clients import CONFIG, CommandLine, Item, ask
from tests.acceptance.ingest.home import PREPROCESS, at_home, manifest, messages

from quire.ledger.port import Upload
from quire.ledger.sqlite.rows import SQL
from quire.ledger.submission_rows import announced_columns
from quire.ledger.submissions import TAKEN

pytestmark = pytest.mark.slow
FILES, FOLDERS, SIZE = 20_000, 40, 3


def taken(batch, place):
    path = f"/fonds/{place % FOLDERS:02}/page {place:05}.txt"
    return Upload(
        path=path,
        state=TAKEN,
        size=SIZE,
        stamp=f"stamp-{place}",
        key=f"staging/{batch}{path}",
        content_type="text/plain",
        config=CONFIG,
        taken_at=1.0,
    )


def fill(server, batch):
    """Noted as taken in one transaction: 40,000 requests would tell nothing more."""

    async def work(office):
        number = (await office.submissions.get_submission(batch)).batch.no
        rows = [(number, *announced_columns(taken(batch, place))) for place in range(FILES)]

        values = (FILES, FILES, FILES * SIZE, office.clock.now(), number, FILES * SIZE)
        # Stored by hand: to make each of them durable would take longer than all the rest.
        for place in range(FILES):
            file = server.home / "blobs" / taken(batch, place).key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"abc")

        def write(connection):
            connection.executemany(SQL["put_upload"], rows)
            connection.execute(SQL["count_uploads"], values)

        await office.submissions._database.write(write)

    at_home(server, work)


def test_twenty_thousand_files_are_closed_in_time(api_only):
    client = CommandLine(api_only.url)
    client.init([Item("/fonds/a.txt", b"abc")] * FILES, "/fonds")
    fill(api_only, client.batch)
    answer = client.finalize()  # the stand-in gives up after 30 seconds, as the client does
    assert (answer["files_uploaded"], answer["total_bytes"]) == (FILES, FILES * SIZE)
    assert "warnings" not in answer
    said = ask("GET", client.url + client.at("status"), {}).json()
    assert said["status"] == "preprocessing"
    assert len({one["r2_key"] for one in said["files"]}) == FILES
    assert "files" not in ask("GET", client.url + client.at("status") + "?files=false", {}).json()
    (message,) = messages(api_only, PREPROCESS, client.batch)
    listed = manifest(api_only, client.batch)
    assert message["total_files"] == listed["total_files"] == FILES
    assert message["total_bytes"] == listed["total_bytes"] == FILES * SIZE
    assert [folder["file_count"] for folder in listed["directories"]] == [FILES // FOLDERS] * FOLDERS
    paths = [one["logical_path"] for folder in listed["directories"] for one in folder["files"]]
    assert len(set(paths)) == FILES
    assert paths == sorted(paths)
