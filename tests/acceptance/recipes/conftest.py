"""Recipe import over HTTP: a server that reads photos itself, and servers with Redis."""

import itertools
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import httpx
import jwt
import pytest
from tests.acceptance.ingest.conftest import Server, serving

SECRET = "a secret that nobody guesses, for tests"
FINAL = {"COMPLETE", "ERROR", "CANCELED", "COMMITTED", "ABANDONED"}
_users = itertools.count(1000)


def token(user: object = 7, *, secret: str = SECRET, **claims: object) -> str:
    return jwt.encode({"sub": user, **claims}, secret, algorithm="HS256")


class Kitchen:
    """A server, asked as a user of its own."""

    def __init__(self, server: Server, user: int | None = None) -> None:
        self.server = server
        self.user = user or next(_users)
        self.client = httpx.Client(
            base_url=server.url, timeout=90, headers={"authorization": f"Bearer {token(self.user)}"}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def post_photos(self, *photos: bytes, **options) -> httpx.Response:
        files = [("images", (f"{number}.jpg", photo)) for number, photo in enumerate(photos)]
        return self.client.post("/recipes/from-image/jobs", files=files, **options)

    def ended(self, job_id: str) -> dict:
        """The job at its end."""
        found = self.client.get(f"/recipes/jobs/{job_id}", params={"wait": 60}).raise_for_status().json()
        assert found["status"] in FINAL, found
        return found

    def job(self, job_id: str) -> dict:
        return self.client.get(f"/recipes/jobs/{job_id}").raise_for_status().json()


ENVIRONMENT = {
    "QUIRE_RECIPES_TOKEN_SECRET": SECRET,
    "QUIRE_RECIPES_ALLOW_PRIVATE": "true",
    "QUIRE_WORKERS": "1",
}


@pytest.fixture(scope="session")
def serving_here(tmp_path_factory):
    """A server that reads photos itself, for all tests that do not harm it."""
    with serving(tmp_path_factory.mktemp("recipes"), ENVIRONMENT) as server:
        yield server


@pytest.fixture
def kitchen(serving_here):
    with Kitchen(serving_here) as found:
        yield found


class Pages(BaseHTTPRequestHandler):
    """Answers with `pages` of its server: by path, status, headers and body."""

    def do_GET(self):
        status, headers, body = self.server.pages.get(self.path, (404, {}, b""))
        self.send_response(status)
        for name, text in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def web_pages():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.pages = {}
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def web():
    with web_pages() as server:
        yield server
