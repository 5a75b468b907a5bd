"""What every store of recipe imports promises. Needs a fixture `recipes`."""

import asyncio

import pytest
from msgspec import structs

from quire.model.errors import Missing, Reject, Stale
from quire.recipes import states
from quire.recipes.port import (
    ImportStage,
    IngestionState,
    JobStatus,
    RecipeJob,
    RecipeStore,
    RequestKey,
    SavedRecipe,
)

EVERY = frozenset(JobStatus)


def a_job(job_id: str = "job-1", **changes: object) -> RecipeJob:
    known: dict[str, object] = {
        "user_id": "7",
        "job_type": "url",
        "url": "https://example.org/cake",
        "job_data": {"document": {"key": "k"}},
        "created_at": 1.0,
        "updated_at": 1.0,
    }
    return RecipeJob(id=job_id, **(known | changes))  # type: ignore[arg-type]


def a_request(key: str = "K1", fingerprint: str = "f", answer: str = '{"id":"job-1"}') -> RequestKey:
    return RequestKey(user_id="7", key=key, fingerprint=fingerprint, answer=answer)


def a_recipe(recipe_id: str = "recipe-1", **changes: object) -> SavedRecipe:
    known: dict[str, object] = {
        "user_id": "7",
        "job_id": None,
        "recipe": {"title": "Cake"},
        "created_at": 5.0,
    }
    return SavedRecipe(id=recipe_id, **(known | changes))  # type: ignore[arg-type]


class RecipeSuite:
    async def test_a_job_comes_back_as_it_was_added(self, recipes: RecipeStore) -> None:
        one = a_job(use_llm_fallback=True, job_data={"title_hint": "Crème 🥧", "n": [1, None]})
        assert await recipes.add_job(one) is None
        assert await recipes.get_job("job-1") == one

    async def test_an_unknown_job_is_missing(self, recipes: RecipeStore) -> None:
        with pytest.raises(Missing) as caught:
            await recipes.get_job("nobody")
        assert caught.value.code == "unknown_job"

    async def test_an_id_is_taken_once(self, recipes: RecipeStore) -> None:
        await recipes.add_job(a_job())
        with pytest.raises(Stale):
            await recipes.add_job(a_job(user_id="8"))
        assert (await recipes.get_job("job-1")).user_id == "7"

    async def test_a_change_is_stored_with_everything_it_says(self, recipes: RecipeStore) -> None:
        await recipes.add_job(a_job())
        job = structs.replace(await recipes.get_job("job-1"), batch_id="B1", attempts=2)
        job = await recipes.replace_job(states.begin(job, ImportStage.PARSING, now=2.0))
        job = await recipes.replace_job(states.complete(job, {"recipe_draft": {"title": "Ä"}}, now=3.0))
        assert await recipes.get_job("job-1") == job
        assert (job.status, job.stage, job.revision) == (JobStatus.COMPLETE, ImportStage.COMPLETE, 2)
        assert (job.started_at, job.completed_at, job.updated_at) == (2.0, 3.0, 3.0)

    async def test_of_two_changes_to_what_both_have_read_one_counts(self, recipes: RecipeStore) -> None:
        await recipes.add_job(a_job())
        job = await recipes.get_job("job-1")
        await recipes.replace_job(states.cancel(job, now=2.0))
        with pytest.raises(Stale):
            await recipes.replace_job(states.complete(job, {}, now=3.0))
        assert (await recipes.get_job("job-1")).status is JobStatus.CANCELED

    async def test_of_many_changes_at_once_one_counts(self, recipes: RecipeStore) -> None:
        await recipes.add_job(a_job())
        job = await recipes.get_job("job-1")
        changes = [states.fail(job, f"code_{number}", "m", now=2.0) for number in range(8)]
        made = await asyncio.gather(*map(recipes.replace_job, changes), return_exceptions=True)
        assert sum(isinstance(one, RecipeJob) for one in made) == 1
        assert sum(isinstance(one, Stale) for one in made) == 7
        assert (await recipes.get_job("job-1")).revision == 1

    async def test_an_upload_ends_as_its_job_does(self, recipes: RecipeStore) -> None:
        await recipes.add_job(a_job(ingestion_id="ing-1"), images=3)
        ingestion = await recipes.get_ingestion("ing-1")
        assert (ingestion.state, ingestion.images, ingestion.job_id) == (IngestionState.PENDING, 3, "job-1")
        job = await recipes.replace_job(
            states.begin(await recipes.get_job("job-1"), ImportStage.OCR_DONE, now=2.0)
        )
        assert (await recipes.get_ingestion("ing-1")).state is IngestionState.RUNNING
        job = await recipes.replace_job(states.complete(job, {}, now=3.0))
        assert (await recipes.get_ingestion("ing-1")).state is IngestionState.SUCCEEDED
        await recipes.add_job(a_job("job-2", ingestion_id="ing-2"), images=1)
        await recipes.replace_job(states.fail(await recipes.get_job("job-2"), "no", "text", now=4.0))
        assert (await recipes.get_ingestion("ing-2")).state is IngestionState.FAILED
        with pytest.raises(Missing):
            await recipes.get_ingestion("ing-3")

    async def test_jobs_are_listed_by_user_and_status_newest_first(self, recipes: RecipeStore) -> None:
        for number in range(4):
            await recipes.add_job(a_job(f"job-{number}"))
        await recipes.add_job(a_job("other", user_id="8"))
        await recipes.replace_job(states.cancel(await recipes.get_job("job-2"), now=2.0))
        found = await recipes.list_jobs("7", statuses=EVERY, limit=3)
        assert [one.id for one in found] == ["job-3", "job-2", "job-1"]
        found = await recipes.list_jobs("7", statuses=[JobStatus.CANCELED], limit=9)
        assert [one.id for one in found] == ["job-2"]
        assert await recipes.list_jobs("7", statuses=[], limit=9) == []

    async def test_what_needs_a_look_is_found(self, recipes: RecipeStore) -> None:
        for number in range(5):
            await recipes.add_job(a_job(f"job-{number}", updated_at=float(number)))
        started = states.begin(
            await recipes.get_job("job-0"), ImportStage.OCR_PENDING, now=3.0, running=False
        )
        await recipes.replace_job(started)
        done = await recipes.get_job("job-1")
        await recipes.replace_job(states.complete(done, {}, now=4.0))
        unstarted = await recipes.list_unstarted(before=4.0, limit=9)
        assert [one.id for one in unstarted] == ["job-2", "job-3"]
        assert [one.id for one in await recipes.list_unstarted(before=4.0, limit=1)] == ["job-2"]
        assert [one.id for one in await recipes.list_unfinished(before=3.5, limit=9)] == ["job-0"]
        assert await recipes.list_unfinished(before=3.5, after="job-0", limit=9) == []
        assert [one.id for one in await recipes.list_unsaved(before=5.0, limit=9)] == ["job-1"]
        assert await recipes.list_unsaved(before=4.0, limit=9) == []

    async def test_the_same_request_gets_the_same_answer_and_adds_nothing(self, recipes: RecipeStore) -> None:
        assert await recipes.add_job(a_job(), request=a_request()) is None
        again = await recipes.add_job(a_job("job-2"), request=a_request(answer="another"))
        assert again == '{"id":"job-1"}'
        with pytest.raises(Missing):
            await recipes.get_job("job-2")

    async def test_a_key_with_other_content_is_refused(self, recipes: RecipeStore) -> None:
        await recipes.add_job(a_job(), request=a_request())
        with pytest.raises(Reject) as caught:
            await recipes.add_job(a_job("job-2"), request=a_request(fingerprint="g"))
        assert caught.value.code == "idempotency_conflict"
        with pytest.raises(Missing):
            await recipes.get_job("job-2")

    async def test_keys_belong_to_their_users(self, recipes: RecipeStore) -> None:
        await recipes.add_job(a_job(), request=a_request())
        other = structs.replace(a_request(), user_id="8")
        assert await recipes.add_job(a_job("job-2", user_id="8"), request=other) is None

    async def test_of_many_requests_with_one_key_at_once_one_adds_a_job(self, recipes: RecipeStore) -> None:
        jobs = [a_job(f"job-{number}") for number in range(8)]
        answers = await asyncio.gather(
            *(recipes.add_job(job, request=a_request(answer=job.id)) for job in jobs)
        )
        (added,) = [job.id for job, answer in zip(jobs, answers, strict=True) if answer is None]
        assert {answer for answer in answers if answer is not None} == {added}
        assert [job.id for job in await recipes.list_jobs("7", statuses=EVERY, limit=9)] == [added]

    async def test_a_key_is_free_again_after_its_time(self, recipes: RecipeStore) -> None:
        await recipes.add_job(a_job(), request=a_request())
        late = a_job("job-2", created_at=100.0)
        assert await recipes.add_job(late, request=a_request(), keys_since=1.0) is not None
        assert await recipes.add_job(late, request=a_request(), keys_since=50.0) is None
        assert await recipes.forget_requests(before=100.0) == 0
        assert await recipes.forget_requests(before=101.0) == 1

    async def test_saving_a_recipe_commits_its_job(self, recipes: RecipeStore) -> None:
        await recipes.add_job(a_job())
        job = await recipes.replace_job(states.complete(await recipes.get_job("job-1"), {}, now=2.0))
        saved = a_recipe(job_id="job-1")
        assert await recipes.add_recipe(saved, job=states.commit(job, now=5.0)) is None
        assert await recipes.get_recipe("recipe-1") == saved
        found = await recipes.get_job("job-1")
        assert (found.status, found.committed_at) == (JobStatus.COMMITTED, 5.0)

    async def test_a_job_is_committed_once(self, recipes: RecipeStore) -> None:
        await recipes.add_job(a_job())
        job = await recipes.replace_job(states.complete(await recipes.get_job("job-1"), {}, now=2.0))
        saves = [
            recipes.add_recipe(a_recipe(f"r{number}", job_id="job-1"), job=states.commit(job, now=5.0))
            for number in range(4)
        ]
        made = await asyncio.gather(*saves, return_exceptions=True)
        assert sum(one is None for one in made) == 1
        assert sum(isinstance(one, Stale) for one in made) == 3

    async def test_a_recipe_that_is_not_saved_leaves_nothing(self, recipes: RecipeStore) -> None:
        await recipes.add_job(a_job())
        job = await recipes.replace_job(states.complete(await recipes.get_job("job-1"), {}, now=2.0))
        stale = structs.replace(states.commit(job, now=5.0), revision=0)
        with pytest.raises(Stale):
            await recipes.add_recipe(a_recipe(), job=stale, request=a_request())
        with pytest.raises(Missing):
            await recipes.get_recipe("recipe-1")
        assert await recipes.forget_requests(before=99.0) == 0

    async def test_saving_again_with_the_same_key_saves_once(self, recipes: RecipeStore) -> None:
        assert await recipes.add_recipe(a_recipe(), request=a_request(answer="first")) is None
        assert await recipes.add_recipe(a_recipe("recipe-2"), request=a_request()) == "first"
        with pytest.raises(Missing):
            await recipes.get_recipe("recipe-2")

    async def test_what_is_over_can_be_emptied_once(self, recipes: RecipeStore) -> None:
        async def add(name: str, **changes: object) -> RecipeJob:
            await recipes.add_job(a_job(name, **changes))
            return await recipes.get_job(name)

        await add("open")
        await recipes.replace_job(states.complete(await add("unsaved"), {}, now=2.0))
        await recipes.replace_job(states.complete(await add("written", job_type="manual"), {}, now=2.0))
        await recipes.replace_job(states.fail(await add("failed"), "no", "text", now=3.0))
        await recipes.replace_job(states.cancel(await add("cancelled"), now=4.0))
        complete = await recipes.replace_job(states.complete(await add("left"), {}, now=4.0))
        await recipes.replace_job(states.abandon(complete, now=5.0))
        complete = await recipes.replace_job(states.complete(await add("saved"), {}, now=4.0))
        await recipes.replace_job(states.commit(complete, now=9.0))
        found = await recipes.list_discardable(before=9.0, limit=9)
        assert [one.id for one in found] == ["written", "failed", "cancelled", "left"]
        assert [one.id for one in await recipes.list_discardable(before=9.0, limit=1)] == ["written"]
        assert await recipes.mark_emptied(found[0], now=10.0)
        changed = await recipes.replace_job(found[1])
        assert not await recipes.mark_emptied(found[1], now=10.0)
        assert await recipes.mark_emptied(changed, now=10.0)
        found = await recipes.list_discardable(before=10.0, limit=9)
        assert [one.id for one in found] == ["cancelled", "left", "saved"]

    async def test_text_of_any_kind_is_kept(self, recipes: RecipeStore) -> None:
        job = a_job(url="https://example.org/'; DROP TABLE recipe_jobs;--", job_data={"hint": "a\tb\nc"})
        await recipes.add_job(job)
        assert await recipes.get_job("job-1") == job
