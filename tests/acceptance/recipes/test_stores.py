"""Recipe import on other stores: pictures in a bucket, jobs in PostgreSQL."""

import json

import httpx
import pytest
import redis
from tests.acceptance.ingest.conftest import s3_environment, serving
from tests.acceptance.recipes.conftest import ENVIRONMENT, Kitchen
from tests.acceptance.recipes.test_with_redis import completion, send, take_request
from tests.servers.postgres import fresh_schema
from tests.situations.recipe_photos import card_photo

pytestmark = [pytest.mark.slow, pytest.mark.service]
RECIPE = {"title": "Toast", "ingredients": ["bread", "butter", "salt"], "steps": ["Toast.", "Butter."]}


def test_pictures_in_a_bucket_are_named_as_the_bucket_has_them(s3_server, redis_server, tmp_path):
    environment = ENVIRONMENT | s3_environment(s3_server, "kitchen/one") | {"QUIRE_REDIS_URL": redis_server}
    with (
        serving(tmp_path, environment) as server,
        Kitchen(server) as kitchen,
        redis.Redis.from_url(redis_server) as broker,
    ):
        accepted = kitchen.post_photos(card_photo()).json()
        request = take_request(broker)
        (ref,) = request["payload"]["image_refs"]
        folder = f"kitchen/one/recipe-images/{kitchen.user}/{accepted['ingestion_id']}"
        assert ref == {"kind": "s3", "value": f"s3://{s3_server.bucket}/{folder}/0.jpg", "index": 0}
        send(broker, completion(request))
        assert kitchen.ended(accepted["job_id"])["status"] == "COMPLETE"


def test_imports_are_the_same_on_postgres(postgres_server, tmp_path):
    dsn = fresh_schema(postgres_server)
    environment = ENVIRONMENT | {"QUIRE_LEDGER": "postgres", "QUIRE_POSTGRES_DSN": dsn}
    with serving(tmp_path, environment) as server, Kitchen(server) as kitchen:
        photo = kitchen.post_photos(card_photo()).json()["job_id"]
        manual = kitchen.client.post("/imports", json=RECIPE, headers={"idempotency-key": "k"}).json()
        again = kitchen.client.post("/imports", json=RECIPE, headers={"idempotency-key": "k"}).json()
        assert again == manual
        assert kitchen.ended(manual["id"])["status"] == "COMPLETE"
        draft = kitchen.ended(photo)["result"]["recipe_draft"]
        saved = kitchen.client.post("/recipes", json=draft | {"parse_job_id": photo})
        assert saved.status_code == 201
        assert kitchen.job(photo)["status"] == "COMMITTED"


def test_owners_of_keys_and_callers_without_one_have_imports_of_their_own(tmp_path):
    from tests.acceptance.conftest import Quire

    quire = Quire(tmp_path)
    keys = [
        json.loads(quire("key", "create", "--scope", "submit", "--json").stdout)["text"] for _ in range(2)
    ]
    with serving(tmp_path, {"QUIRE_WORKERS": "1"}) as server:
        url = server.url
        own = [{"authorization": f"Bearer {key}"} for key in keys] + [{}]
        jobs = [httpx.post(f"{url}/imports", json=RECIPE, headers=one).json()["id"] for one in own]
        for mine, headers in enumerate(own):
            found = [httpx.get(f"{url}/recipes/jobs/{job}", headers=headers).status_code for job in jobs]
            assert found == [200 if number == mine else 404 for number in range(3)]
        read_only = json.loads(quire("key", "create", "--scope", "read", "--json").stdout)["text"]
        refused = httpx.post(f"{url}/imports", json=RECIPE, headers={"authorization": f"Bearer {read_only}"})
        assert refused.status_code == 403
        # Without a secret for tokens there are none.
        token = {"authorization": "Bearer a.b.c"}
        assert httpx.get(f"{url}/recipes/jobs/{jobs[2]}", headers=token).status_code == 200
        assert httpx.get(f"{url}/recipes/jobs/{jobs[0]}", headers=token).status_code == 404
