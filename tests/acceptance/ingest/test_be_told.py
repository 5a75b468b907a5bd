"""Being told: webhooks of a running server, signed, tried again, sent again on request."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue

import pytest
from standardwebhooks import Webhook
from tests.acceptance.ingest.conftest import serving

INIT = {"uploader": "ana", "root_path": "/", "file_count": 1, "total_size": 10}
PRIVATE = {"QUIRE_WEBHOOKS_ALLOW_PRIVATE": "true"}


class Receiver:
    """An HTTP server that remembers what it was sent and answers what it is told to."""

    def __init__(self) -> None:
        self.calls: Queue = Queue()
        self.answers: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status = receiver.answers.pop(0) if receiver.answers else 204
                self.send_response(status)
                self.end_headers()
                headers = {name.lower(): text for name, text in self.headers.items()}
                receiver.calls.put((headers, body, status))

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def call(self):
        return self.calls.get(timeout=30)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def client(tmp_path):
    with serving(tmp_path, PRIVATE, "--api-only") as server, server.client() as client:
        yield client


def test_a_global_webhook_is_told_in_cloud_events_with_a_signature_that_holds(client, receiver):
    made = client.post("/api/webhooks", json={"url": receiver.url, "kinds": ["batch_opened"]})
    assert made.status_code == 201
    batch = client.post("/api/batches/init", json=INIT).json()["batch_id"]
    headers, body, _ = receiver.call()
    told = Webhook(made.json()["secret"]).verify(body, headers)
    assert headers["content-type"].startswith("application/cloudevents+json")
    assert (told["specversion"], told["type"], told["subject"]) == ("1.0", "quire.batch_opened", batch)
    assert "secret" not in json.dumps(client.get("/api/webhooks").json())


def test_a_batchs_webhook_is_told_of_that_batch_alone(client, receiver):
    mine = client.post("/api/batches/init", json=INIT).json()["batch_id"]
    other = client.post("/api/batches/init", json=INIT).json()["batch_id"]
    assert client.post(f"/api/batches/{mine}/webhooks", json={"url": receiver.url}).status_code == 201
    client.post(f"/admin/cancel/{other}")
    client.post(f"/admin/cancel/{mine}", json={"reason": "enough"})
    _, body, _ = receiver.call()
    told = json.loads(body)
    assert (told["type"], told["subject"], told["data"]["reason"]) == (
        "quire.batch_cancelled",
        mine,
        "enough",
    )
    [line] = client.get(f"/api/webhooks/deliveries?batch_id={mine}").json()["deliveries"]
    assert client.get(f"/api/webhooks/deliveries?batch_id={other}").json()["deliveries"] == []
    assert line["batch_id"] == mine


def test_what_was_delivered_can_be_sent_again_under_the_same_id(client, receiver):
    client.post("/api/webhooks", json={"url": receiver.url})
    client.post("/api/batches/init", json=INIT)
    first, _, _ = receiver.call()
    [line] = client.get("/api/webhooks/deliveries").json()["deliveries"]
    again = client.post("/api/webhooks/redeliver", json={"deliveries": [line["no"]]})
    assert again.json() == {"ok": True, "deliveries": 1}
    second, _, _ = receiver.call()
    assert first["webhook-id"] == second["webhook-id"]


def test_a_receiver_that_is_gone_is_asked_no_more(client, receiver):
    receiver.answers = [410]
    hook = client.post("/api/webhooks", json={"url": receiver.url}).json()["hook"]["id"]
    client.post("/api/batches/init", json=INIT)
    receiver.call()
    disabled = None
    for _ in range(200):
        [line] = client.get("/api/webhooks").json()["webhooks"]
        disabled = line["disabled_at"]
        if disabled:
            break
    assert (line["id"], bool(disabled)) == (hook, True)


def test_addresses_of_the_house_are_not_called_unless_allowed(api, receiver):
    refused = api.post("/api/webhooks", json={"url": receiver.url})
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"
    assert "127.0.0.1" not in json.dumps(api.get("/api/webhooks").json())


@pytest.mark.parametrize(
    "url", ["ftp://example.org/x", "file:///etc/passwd", "http://", "", "https://a:b@c/"]
)
def test_what_is_no_address_is_refused(api, url):
    assert api.post("/api/webhooks", json={"url": url}).status_code == 400
