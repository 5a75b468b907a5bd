"""One who sends files by hand, call by call: every answer comes back as it is."""

import hashlib

import httpx
from tests.acceptance.ingest.conftest import CONFIG


class Sender:
    """Of one batch. What a test does not say is something good."""

    def __init__(self, client: httpx.Client, **said) -> None:
        self.client = client
        body = {"uploader": "ana", "root_path": "/", "parent_pi": "", "file_count": 1, "total_size": 5} | said
        answer = client.post("/api/batches/init", json=body)
        assert answer.status_code == 201, answer.text
        self.id = answer.json()["batch_id"]
        self.at = f"/api/batches/{self.id}"

    def key(self, path: str) -> str:
        return f"staging/{self.id}{path}"

    def start(self, path: str, size: int = 5, **more) -> httpx.Response:
        body = {
            "file_name": path.rpartition("/")[2],
            "file_size": size,
            "logical_path": path,
            "content_type": "text/plain",
            "processing_config": CONFIG,
        }
        return self.client.post(f"{self.at}/files/start", json=body | more)

    def complete(self, path: str, **more) -> httpx.Response:
        return self.client.post(f"{self.at}/files/complete", json={"r2_key": self.key(path)} | more)

    def withdraw(self, key: str) -> httpx.Response:
        return self.client.delete(f"{self.at}/files", params={"r2_key": key})

    def finalize(self, **more) -> httpx.Response:
        return self.client.post(f"{self.at}/finalize", json=more)

    def status(self) -> dict:
        answer = self.client.get(f"{self.at}/status")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def url(self, path: str, size: int = 5) -> str:
        return self.start(path, size).raise_for_status().json()["presigned_url"]

    def send(self, path: str, data: bytes) -> None:
        """Announced, sent and confirmed."""
        assert httpx.put(self.url(path, len(data)), content=data).status_code == 200
        assert self.complete(path).json() == {"success": True}


def bytes_of(number: int, size: int) -> bytes:
    """Always the same, and of no other number."""
    return hashlib.shake_128(b"%d" % number).digest(size)
