"""Users see their own imports; tokens are what they say, or nothing."""

import base64
import hashlib
import hmac
import json
import time

import httpx
import jwt
import pytest
from tests.acceptance.recipes.conftest import SECRET, Kitchen, token

pytestmark = pytest.mark.slow
RECIPE = {"title": "Toast", "ingredients": ["bread", "butter", "salt"], "steps": ["Toast.", "Butter."]}


def encode(part: object) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(header: dict, claims: dict, *, secret: str = SECRET, algorithm=hashlib.sha256) -> str:
    signed = f"{encode(header)}.{encode(claims)}"
    return f"{signed}.{encode(hmac.digest(secret.encode(), signed.encode(), algorithm))}"


ATTACKS = {
    "alg none": f"{encode({'alg': 'none'})}.{encode({'sub': 7})}.",
    "alg None, signed": f"{encode({'alg': 'None'})}.{encode({'sub': 7})}.{token().split('.')[2]}",
    "another algorithm": forged({"alg": "HS512"}, {"sub": 7}, algorithm=hashlib.sha512),
    "another algorithm, signed rightly": forged({"alg": "HS384"}, {"sub": 7}),
    "no algorithm": forged({}, {"sub": 7}),
    "unknown extensions": forged({"alg": "HS256", "crit": ["exp"]}, {"sub": 7}),
    "another secret": token(secret="another secret that nobody guesses"),
    "an empty secret": forged({"alg": "HS256"}, {"sub": 7}, secret=""),
    "expired": token(exp=int(time.time()) - 60),
    "not yet valid": token(nbf=int(time.time()) + 3600),
    "an expiry that is no number": forged({"alg": "HS256"}, {"sub": 7, "exp": "never"}),
    "no subject": forged({"alg": "HS256"}, {}),
    "a subject that is no number": forged({"alg": "HS256"}, {"sub": "key_01ABC"}),
    "a path as subject": forged({"alg": "HS256"}, {"sub": "../8"}),
    "true as subject": forged({"alg": "HS256"}, {"sub": True}),
    "a fraction as subject": forged({"alg": "HS256"}, {"sub": 7.5}),
    "a changed body": ".".join((token().split(".")[0], encode({"sub": 8}), token().split(".")[2])),
    "a list": forged({"alg": "HS256"}, [7]),
    "padding": token() + "=",
    "nothing": ".",
    "no token": "7",
    "long": "a." * 5000,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_token_that_is_not_right_is_refused(serving_here, name):
    headers = {"authorization": f"Bearer {ATTACKS[name]}"}
    refused = httpx.get(f"{serving_here.url}/recipes/jobs", headers=headers)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert ATTACKS[name] not in refused.text or len(ATTACKS[name]) < 3


def test_subjects_come_as_numbers_and_as_text(serving_here):
    for subject, expires in ((123_456, {}), ("123456", {"exp": int(time.time()) + 3600})):
        text = jwt.encode({"sub": subject, **expires}, SECRET, algorithm="HS256")
        headers = {"authorization": f"Bearer {text}"}
        assert httpx.get(f"{serving_here.url}/recipes/jobs", headers=headers).status_code == 200


def test_what_another_user_has_does_not_exist(kitchen, serving_here):
    job_id = kitchen.client.post("/imports", json=RECIPE).json()["id"]
    kitchen.ended(job_id)
    with Kitchen(serving_here) as other:
        answers = (
            other.client.get(f"/recipes/jobs/{job_id}"),
            other.client.get(f"/recipes/parse-url/status/{job_id}"),
            other.client.post(f"/recipes/jobs/{job_id}/cancel"),
            other.client.post("/recipes", json=RECIPE | {"parse_job_id": job_id}),
            kitchen.client.get("/recipes/jobs/5b0e6a1c-9f0d-4c55-8a43-6c8f1b1b7a10"),
            kitchen.client.post("/recipes", json=RECIPE | {"parse_job_id": "unknown"}),
        )
        assert [one.status_code for one in answers] == [404] * 6
        assert other.client.get("/recipes/jobs").json() == {"jobs": []}
    assert kitchen.job(job_id)["status"] == "COMPLETE"


def test_an_import_that_is_over_cannot_be_cancelled(kitchen):
    job_id = kitchen.client.post("/imports", json=RECIPE).json()["id"]
    kitchen.ended(job_id)
    assert kitchen.client.post(f"/recipes/jobs/{job_id}/cancel").status_code == 409


def test_saving_again_with_the_same_key_saves_once(kitchen):
    key = {"idempotency-key": "save-1"}
    first = kitchen.client.post("/recipes", json=RECIPE, headers=key)
    again = kitchen.client.post("/recipes", json=RECIPE, headers=key)
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    other = kitchen.client.post("/recipes", json=RECIPE | {"title": "Soup"}, headers=key)
    assert other.status_code == 422


def test_pages_of_other_origins_may_not_ask(kitchen):
    refused = kitchen.client.get("/recipes/jobs", headers={"origin": "https://evil.example"})
    assert refused.status_code == 403
