"""The server as a process: it starts, says where it is, and stops when asked."""

import httpx
from tests.acceptance.ingest.conftest import CONFIG, serving


def test_it_answers_and_stops_gracefully(tmp_path):
    with serving(tmp_path, {}, "--api-only") as server:
        assert httpx.get(server.url).json() == {
            "service": "arke-ingest-worker",
            "version": "0.1.0",
            "status": "healthy",
        }
        assert server.stop() == 0


def test_a_collection_goes_in_and_comes_out(server):
    data = b"x" * 100
    with server.client() as client:
        body = {"uploader": "ana", "root_path": "/", "parent_pi": "", "file_count": 1, "total_size": 100}
        batch = client.post("/api/batches/init", json=body).raise_for_status().json()["batch_id"]
        body = {
            "file_name": "a é+#%.txt",
            "file_size": 100,
            "logical_path": "/a é+#%.txt",
            "content_type": "text/plain",
            "processing_config": CONFIG,
        }
        ticket = client.post(f"/api/batches/{batch}/files/start", json=body).raise_for_status().json()
        put = httpx.put(ticket["presigned_url"], content=data)
        assert put.status_code == 200
        assert put.headers["etag"]
        done = client.post(f"/api/batches/{batch}/files/complete", json={"r2_key": ticket["r2_key"]})
        assert done.json() == {"success": True}
        closed = client.post(f"/api/batches/{batch}/finalize", json={}).raise_for_status().json()
        assert closed["status"] in {"preprocessing", "enqueued"}
        with client.stream("GET", f"/api/batches/{batch}/events") as events:
            assert "event: batch_done" in "\n".join(events.iter_lines())
        assert client.get(f"/api/batches/{batch}/status").json()["status"] == "enqueued"
