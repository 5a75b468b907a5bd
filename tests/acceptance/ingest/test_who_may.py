"""Who may: on loopback anybody, elsewhere whoever has a key, and each only what its key is for."""

import json
import subprocess
import sys

import httpx
import pytest
from tests.acceptance.ingest.conftest import serving

NEVER = {"QUIRE_SERVE_ANONYMOUS": "never"}
INIT = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 10}


def quire(home, *arguments: str):
    return subprocess.run(
        [sys.executable, "-m", "quire.cli.main", *arguments, "--home", str(home), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )


def made(home, *arguments: str) -> str:
    answer = quire(home, "key", "create", *arguments)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)["text"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    admin = made(folder / "home", "--scope", "admin", "--label", "boss")
    with serving(folder, NEVER, "--api-only") as server:
        server.admin = admin
        yield server


def as_(server, key: str) -> httpx.Client:
    return server.client(headers={"authorization": f"Bearer {key}"})


def new_key(server, **said) -> str:
    with as_(server, server.admin) as client:
        answer = client.post("/api/keys", json=said)
        assert answer.status_code == 201, answer.text
        return answer.json()["text"]


@pytest.mark.parametrize(
    ("host", "environment", "advice"),
    [("0.0.0.0", {}, "listen on 127.0.0.1"), ("127.0.0.1", NEVER, "do not set serve.anonymous to never")],  # noqa: S104
)
def test_without_valid_keys_a_server_that_asks_for_them_does_not_start(tmp_path, host, environment, advice):
    home = tmp_path / "home"
    made(home, "--scope", "admin")
    key = json.loads(quire(home, "key", "list").stdout)["keys"][0]["id"]
    assert quire(home, "key", "revoke", key).returncode == 0
    done = subprocess.run(
        [sys.executable, "-m", "quire.cli.main", "serve", "--host", host, "--port", "0", "--api-only"],
        env={"QUIRE_HOME": str(home), "PATH": ""} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert f"quire key create --scope admin`, or {advice}" in done.stderr


def test_on_loopback_nothing_is_asked_for(api):
    assert api.post("/api/batches/init", json=INIT).status_code == 201
    assert api.get("/api/keys").status_code == 200


def test_a_token_of_another_system_is_no_obstacle_where_nothing_is_asked_for(api):
    headers = {"authorization": "Bearer eyJhbGciOi.J9", "x-user-id": "ana"}
    assert api.post("/api/batches/init", json=INIT, headers=headers).status_code == 201


def test_a_false_key_of_ours_is_refused_also_there(api):
    answer = api.get("/api/batches", headers={"authorization": "Bearer qk_false"})
    assert answer.status_code == 401


@pytest.mark.parametrize("said", [None, "Bearer", "Bearer qk_x", "Basic YTpi", "Bearer " + "x" * 5000])
def test_no_key_no_entry(guarded, said):
    headers = {} if said is None else {"authorization": said}
    with guarded.client(headers=headers) as client:
        answer = client.post("/api/batches/init", json=INIT)
        assert answer.status_code == 401
        assert set(answer.json()) == {"error"}
        assert answer.headers["www-authenticate"].startswith("Bearer")
        problem = client.get("/api/batches")
        assert problem.status_code == 401
        assert problem.headers["content-type"] == "application/problem+json"
        assert client.get("/").status_code == 200


def test_who_submits_sees_its_own_and_nothing_else(guarded):
    one, other = new_key(guarded, scope="submit"), new_key(guarded, scope="submit")
    with as_(guarded, one) as mine, as_(guarded, other) as theirs:
        batch = mine.post("/api/batches/init", json=INIT).json()["batch_id"]
        for path in (f"/api/batches/{batch}/status", f"/status/{batch}", f"/api/batches/{batch}/files"):
            assert mine.get(path).status_code == 200, path
            assert theirs.get(path).status_code == 404, path
        assert theirs.post(f"/api/batches/{batch}/finalize", json={}).status_code == 404
        assert mine.get("/api/batches").status_code == 403
        assert mine.post(f"/admin/cancel/{batch}").status_code == 403
        assert mine.get("/api/keys").status_code == 403


def test_who_reads_looks_at_everything_and_changes_nothing(guarded):
    with as_(guarded, guarded.admin) as admin, as_(guarded, new_key(guarded, scope="read")) as reader:
        batch = admin.post("/api/batches/init", json=INIT).json()["batch_id"]
        assert reader.get(f"/api/batches/{batch}/status").status_code == 200
        assert reader.get("/api/batches").status_code == 200
        assert reader.post("/api/batches/init", json=INIT).status_code == 403
        assert reader.post(f"/admin/cancel/{batch}").status_code == 403


def test_a_tenants_key_sees_that_tenants_batches_alone(guarded):
    north = new_key(guarded, scope="operate", tenant="north")
    with as_(guarded, guarded.admin) as admin, as_(guarded, north) as client:
        foreign = admin.post("/api/batches/init", json=INIT).json()["batch_id"]
        own = client.post("/api/batches/init", json=INIT).json()["batch_id"]
        assert client.get(f"/api/batches/{foreign}/status").status_code == 404
        assert client.post(f"/admin/cancel/{foreign}").status_code == 404
        assert [line["batch_id"] for line in client.get("/api/batches").json()["batches"]] == [own]
        assert client.get("/api/batches?tenant=").json()["batches"][0]["batch_id"] == own
        assert client.get("/api/queues").status_code == 403
        assert admin.get(f"/status/{own}").json()["tenant"] == "north"


def test_a_revoked_key_is_refused_at_once_and_looks_like_any_other(guarded):
    key = new_key(guarded, scope="read")
    with as_(guarded, guarded.admin) as admin, as_(guarded, key) as client:
        assert client.get("/api/batches").status_code == 200
        [line] = [one for one in admin.get("/api/keys").json()["keys"] if key.startswith(one["hint"])]
        assert admin.delete(f"/api/keys/{line['id']}").status_code == 200
        refused = client.get("/api/batches")
        assert refused.status_code == 401
        with as_(guarded, "qk_never") as never:
            assert never.get("/api/batches").json() == refused.json()


def test_a_rotated_key_and_its_successor_share_what_they_opened(guarded):
    key = new_key(guarded, scope="submit")
    with as_(guarded, guarded.admin) as admin, as_(guarded, key) as old:
        batch = old.post("/api/batches/init", json=INIT).json()["batch_id"]
        [line] = [one for one in admin.get("/api/keys").json()["keys"] if key.startswith(one["hint"])]
        text = admin.post(f"/api/keys/{line['id']}/rotate").json()["text"]
        with as_(guarded, text) as new:
            assert new.get(f"/api/batches/{batch}/status").status_code == 200
        assert old.get(f"/api/batches/{batch}/status").status_code == 200


def test_too_often_is_429_with_the_time_to_wait(guarded):
    with as_(guarded, new_key(guarded, scope="read", requests_per_minute=3)) as client:
        answers = [client.get("/api/batches").status_code for _ in range(4)]
        assert answers == [200, 200, 200, 429]
        assert int(client.get("/api/batches").headers["retry-after"]) >= 1


def test_too_many_open_batches_or_bytes_are_429(guarded):
    with as_(guarded, new_key(guarded, scope="submit", max_batches=1)) as client:
        assert client.post("/api/batches/init", json=INIT).status_code == 201
        refused = client.post("/api/batches/init", json=INIT)
        assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
    with as_(guarded, new_key(guarded, scope="submit", max_bytes=15)) as client:
        assert client.post("/api/batches/init", json=INIT).status_code == 201
        assert client.post("/api/batches/init", json=INIT).status_code == 429
        assert client.post("/api/batches/init", json=INIT | {"total_size": 16}).status_code == 400


def test_what_was_done_with_keys_is_in_the_audit_trail(guarded):
    new_key(guarded, scope="read", label="for the audit")
    with as_(guarded, guarded.admin) as admin:
        last = admin.get("/api/audit").json()["events"][-1]
    assert (last["kind"], last["data"]["actor"], last["data"]["scope"]) == ("key_created", "boss", "read")
    assert "qk_" not in json.dumps(last)


def test_so_is_what_was_done_at_the_command_line(guarded):
    made = json.loads(quire(guarded.home, "key", "create", "--scope", "read").stdout)["key"]["id"]
    rotated = json.loads(quire(guarded.home, "key", "rotate", made).stdout)["key"]["id"]
    assert quire(guarded.home, "key", "revoke", made).returncode == 0
    with as_(guarded, guarded.admin) as admin:
        events = admin.get("/api/audit").json()["events"][-3:]
    assert [(one["kind"], one["data"]["key"]) for one in events] == [
        ("key_created", made),
        ("key_rotated", rotated),
        ("key_revoked", made),
    ]
    assert all("@" in one["data"]["actor"] for one in events)
