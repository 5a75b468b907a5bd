"""Tasks that somebody outside completes, on every ledger: the first valid answer wins, once."""

import base64
import json

import msgspec
import pytest
from tests.servers.postgres import fresh_schema
from tests.situations.flowing import begin_flow, claim_all
from tests.suites.ledger_situations import ME, act

from quire.batches.remote.answers import (
    MAX_BODY_BYTES,
    TaskAnswered,
    complete_task,
    read_answer,
    read_message,
)
from quire.batches.remote.context import RemoteContext
from quire.database.postgres import PostgresDatabase
from quire.database.sqlite import SqliteDatabase
from quire.engine import moves
from quire.engine.cache import cache_key_of, cache_key_prefix
from quire.engine.deadlines import Deadlines
from quire.engine.flow_settler import FlowSettler
from quire.engine.retry import RetryPolicy
from quire.engine.settlement import decide_settlement
from quire.ledger.port import StrayKind, TaskSelection
from quire.ledger.postgres import PostgresLedger
from quire.ledger.sqlite import SqliteLedger
from quire.model.batch import Budget, FileOutcome, Hold, Stage, TaskState
from quire.model.errors import Missing, Reject, Retry
from quire.model.files import File
from quire.model.plan import OnFailure, Plan, PlanPhase, PlanStep, TakenValue, parse_accepts
from quire.model.task_tokens import TokenAddress, issue_token
from quire.model.work import ExternalRequest, Outcome, Report
from quire.testing.memory_blobs import MemoryBlobs
from quire.testing.time import CountingIds, FakeClock

ID = "01KA0000000000000000000000"
FOLDER = f"staging/{ID}"
SECRET, FORMER = b"s" * 32, b"f" * 32
ASKING = Plan(
    name="asking",
    version=1,
    queue="asking",
    phases=(
        PlanPhase(
            name="ask",
            steps=(
                PlanStep(
                    name="ask",
                    step="asking.ask",
                    version=1,
                    external=True,
                    gives_value=True,
                    max_attempts=2,
                    on_failure=OnFailure.STOP,
                ),
            ),
        ),
        PlanPhase(
            name="use",
            steps=(
                PlanStep(
                    name="use",
                    step="asking.use",
                    version=1,
                    accepts=parse_accepts("*.txt"),
                    takes=(TakenValue("ask", ("ask",)),),
                ),
            ),
        ),
    ),
)
OK = TaskAnswered(ok=True)
WAITING = TaskAnswered(ok=True, waiting=True)
DUPLICATE = TaskAnswered(ok=True, duplicate=True)
LATE = TaskAnswered(ok=True, late=True)


def said(status="success", **fields):
    return read_answer(json.dumps({"status": status, **fields}).encode())


class AnswerBench:
    """A batch whose first step asks somebody outside. Its pipeline is not known in this process."""

    def __init__(self, ledger):
        self.ledger = ledger
        self.blobs = MemoryBlobs()
        self.clock = FakeClock()
        self.ids = CountingIds()
        self.settler = FlowSettler(ledger)
        self.deadlines = Deadlines(ledger, self.settler, self.clock, self.ids, RetryPolicy())
        self.context = RemoteContext(
            batches=ledger,
            tasks=ledger,
            flow=ledger,
            records=ledger,
            members=ledger,
            blobs=self.blobs,
            clock=self.clock,
            ids=self.ids,
            pipelines={},
        )
        self.claims = {}

    async def begin(self, names=("a.txt", "b.txt"), **changes):
        files = [
            File(key=f"{FOLDER}/{name}", path=name, name=name, size=1, content_type="text/plain", digest=name)
            for name in names
        ]
        for file in files:
            await self.blobs.put(file.key, b"-")
        await begin_flow(self.ledger, self.blobs, self.clock, ASKING, files, ID, **changes)
        await self.claim()

    async def claim(self):
        found = await claim_all(self.ledger, ID, now=self.clock.now())
        self.claims |= found
        return found

    async def ask(self, path="a.txt", *, within=60.0, queue="", body=b""):
        """The step has returned External."""
        claim = self.claims[path]
        request = ExternalRequest(queue=queue, body=body, within_seconds=within)
        report = Report(
            *(*claim.order.attempt_key, Outcome.EXTERNAL, self.clock.now(), 0.5, "w"), request=request
        )
        now = self.clock.now()
        settlement = decide_settlement(report, claim, RetryPolicy(), now=now, fraction=0.0)
        return await self.settler.settle(claim.order.batch_no, [(settlement, claim)], now=now)

    def token(self, path="a.txt", secret=SECRET, **changes):
        order = self.claims[path].order
        known = {"batch_id": ID, "task_no": order.task_no, "attempt": order.attempt}
        return issue_token(secret, TokenAddress(**(known | changes)))

    async def answer(self, path="a.txt", *, token=None, **fields):
        answer = said(**fields)
        return await complete_task(
            self.context, (SECRET, FORMER), token or self.token(path), answer, patience_seconds=0.0
        )

    async def end(self):
        batch = await self.ledger.get_batch(ID)
        await self.ledger.apply_move(moves.end(batch, ASKING, now=self.clock.now(), message=None))

    async def task(self, path="a.txt"):
        order = self.claims[path].order
        return await self.ledger.get_task(order.batch_no, order.task_no)

    async def state(self, path="a.txt"):
        return (await self.task(path)).state

    async def counts(self):
        batch = await self.ledger.get_batch(ID)
        return [(one.total, one.done, one.failed) for one in await self.ledger.count_tasks(batch.no)]

    async def inputs(self):
        batch = await self.ledger.get_batch(ID)
        return {one.path: one for one in await self.ledger.list_inputs(batch.no, limit=9)}

    async def cached(self, path="a.txt"):
        """What the step cache has for the task on this file."""
        step = ASKING.phases[0].steps[0]
        key = cache_key_of(cache_key_prefix(step), step, self.claims[path].order)
        return (await self.ledger.load_cached([key])).get(key)

    async def strays(self):
        batch = await self.ledger.get_batch(ID)
        return [one.kind for one in await self.ledger.list_stray_reports(batch.no, limit=9)]


class AnswerSuite:
    """Needs the fixture `ledger`."""

    @pytest.fixture
    async def bench(self, ledger):
        bench = AnswerBench(ledger)
        await bench.begin()
        return bench

    async def test_a_value_completes_the_task_and_goes_to_the_next_step(self, bench):
        await bench.ask()
        assert await bench.state() is TaskState.EXTERNAL
        assert await bench.claim() == {}, "nobody works on it"
        assert await bench.answer(value={"pages": 3}) == OK
        following = (await bench.claim())["a.txt"]
        given = msgspec.msgpack.decode(following.place.given)
        assert given["ask"]["data"] == {"pages": 3}
        assert await bench.counts() == [(2, 1, 0), (1, 0, 0)]

    async def test_outputs_come_inline_or_by_their_keys(self, bench):
        key = f"{FOLDER}/answers/large.bin"
        await bench.blobs.put(key, b"large")
        await bench.ask()
        outputs = [
            {"name": "page.txt", "text": "Dear Emma"},
            {"name": "raw", "data": base64.b64encode(b"\x00\x01").decode(), "tags": ["raw"]},
            {"name": "large.bin", "key": key, "size": 5, "change": "join"},
        ]
        assert await bench.answer(value=1, outputs=outputs, tags=["read"]) == OK
        made = {file.path: file for _, file in (await bench.inputs())["a.txt"].made}
        assert (await bench.blobs.get(made["a.txt.page.txt"].key), made["a.txt.page.txt"].content_type) == (
            b"Dear Emma",
            "text/plain",
        )
        assert await bench.blobs.get(made["a.txt.raw"].key) == b"\x00\x01"
        assert (made["a.txt.raw"].tags, made["a.txt.large.bin"].key) == (("raw",), key)

    async def test_an_answer_is_kept_in_the_step_cache_under_the_key_of_its_task(self, bench):
        outputs = [{"name": "page.txt", "text": "Dear Emma"}]
        await bench.ask()
        assert await bench.answer(value={"pages": 3}, outputs=outputs) == OK
        found = await bench.cached()
        assert found.value.data == {"pages": 3}
        assert await bench.blobs.get(found.products[0].key) == b"Dear Emma"
        assert await bench.answer(value={"pages": 4}) == DUPLICATE
        assert (await bench.cached()).value.data == {"pages": 3}
        assert await bench.cached("b.txt") is None

    async def test_a_failure_is_not_kept_in_the_step_cache(self, bench):
        await bench.ask()
        assert await bench.answer(status="error", error="blank") == OK
        assert await bench.cached() is None

    async def test_an_answer_whose_output_lies_with_the_batch_is_not_kept_in_the_step_cache(self, bench):
        key = f"{FOLDER}/answers/large.bin"
        await bench.blobs.put(key, b"large")
        await bench.ask()
        assert await bench.answer(outputs=[{"name": "large.bin", "key": key}]) == OK
        assert await bench.cached() is None

    async def test_a_large_value_is_kept_as_a_blob(self, bench):
        await bench.ask()
        assert await bench.answer(value="x" * 10_000) == OK
        given = msgspec.msgpack.decode((await bench.claim())["a.txt"].place.given)
        assert given["ask"]["size"] == 10_002
        assert given["ask"]["digest"]

    async def test_the_request_leaves_with_the_state(self, bench):
        await bench.ask(queue="ocr-jobs", body=b"please")
        sent = [one for one in await bench.ledger.list_unsent(9) if one.queue == "ocr-jobs"]
        assert [one.body for one in sent] == [b"please"]
        await bench.ask(queue="ocr-jobs", body=b"please")  # the answer of the ledger was lost
        assert len([one for one in await bench.ledger.list_unsent(9) if one.queue == "ocr-jobs"]) == 1

    async def test_no_answer_is_taken_before_the_step_has_returned(self, bench):
        with pytest.raises(Retry) as caught:
            await bench.answer(value=1)
        assert (caught.value.code, caught.value.delay_seconds) == ("too_early", 5.0)
        await bench.ask()
        assert await bench.answer(value=1) == OK

    async def test_an_early_answer_waits_for_the_step(self, bench):
        async def sleep(seconds):
            bench.clock.advance(seconds)
            await bench.ask()

        answered = await complete_task(
            bench.context, (SECRET,), bench.token(), said(value=1), patience_seconds=5.0, sleep=sleep
        )
        assert answered == OK
        assert await bench.state() is TaskState.DONE

    async def test_the_first_answer_wins_and_others_are_told_so(self, bench):
        await bench.ask()
        assert await bench.answer(value=1) == OK
        before = await bench.counts()
        assert await bench.answer(value=2) == DUPLICATE
        assert await bench.answer(status="error", error="no") == DUPLICATE
        assert await bench.answer(status="error", error="no", final=False) == DUPLICATE
        assert await bench.counts() == before
        given = msgspec.msgpack.decode((await bench.claim())["a.txt"].place.given)
        assert given["ask"]["data"] == 1
        assert await bench.strays() == [StrayKind.DUPLICATE] * 3

    async def test_a_final_failure_fails_the_task_with_its_reason(self, bench):
        await bench.ask()
        answer = {"status": "error", "error": "the page is blank", "error_class": "blank"}
        assert await bench.answer(**answer) == OK
        assert await bench.state() is TaskState.FAILED
        assert (await bench.counts())[0] == (2, 0, 1)
        one = (await bench.inputs())["a.txt"]
        assert (one.error_class, one.reason) == ("blank", "the page is blank")
        assert await bench.answer(value=1) == DUPLICATE, "it was not for lost time"

    async def test_a_failure_that_will_pass_is_noted_and_the_task_goes_on_waiting(self, bench):
        await bench.ask()
        assert await bench.answer(status="error", error="busy", final=False) == WAITING
        assert await bench.state() is TaskState.EXTERNAL
        assert await bench.answer(value=1) == OK
        assert await bench.state() is TaskState.DONE

    async def test_the_deadline_ends_the_wait_and_says_what_was_heard(self, bench):
        await bench.ask(within=60.0)
        await bench.answer(status="error", error="the model is busy", final=False)
        bench.clock.advance(59.0)
        assert await bench.deadlines.settle_overdue(None) == 0
        bench.clock.advance(2.0)
        assert await bench.deadlines.settle_overdue(None) == 1
        assert await bench.state() is TaskState.WAITING, "there is a second try"
        bench.clock.advance(60.0)
        await bench.claim()
        await bench.ask(within=60.0)
        bench.clock.advance(61.0)
        assert await bench.deadlines.settle_overdue(None) == 1
        assert await bench.state() is TaskState.FAILED
        one = (await bench.inputs())["a.txt"]
        assert one.error_class == "no_answer"
        assert "nobody has answered the request of ask in time;" in one.reason
        assert "External(within=" in one.reason
        batch = await bench.ledger.get_batch(ID)
        _, attempts = await bench.ledger.get_file_history(batch.no, "a.txt")
        assert any("the last that was heard: the model is busy" in (one.error or "") for one in attempts)

    async def test_deadlines_of_other_batches_are_not_touched(self, bench):
        await bench.ask(within=1.0)
        bench.clock.advance(2.0)
        assert await bench.deadlines.settle_overdue([999]) == 0
        batch = await bench.ledger.get_batch(ID)
        assert await bench.deadlines.settle_overdue([batch.no]) == 1

    async def test_an_answer_after_the_deadline_counts_while_nothing_followed(self, bench):
        await bench.ask(within=1.0)
        bench.clock.advance(2.0)
        await bench.deadlines.settle_overdue(None)
        assert await bench.answer(value=1) == OK
        assert await bench.state() is TaskState.DONE
        assert (await bench.inputs())["a.txt"].outcome is FileOutcome.PENDING

    async def test_the_token_of_an_earlier_try_is_late(self, bench):
        await bench.ask(within=1.0)
        former = bench.token()
        bench.clock.advance(60.0)
        await bench.deadlines.settle_overdue(None)
        bench.clock.advance(60.0)
        await bench.claim()
        assert bench.claims["a.txt"].order.attempt == 2
        assert await bench.answer(token=former, value=1) == LATE
        assert await bench.state() is TaskState.RUNNING
        assert await bench.strays() == [StrayKind.LATE]

    @pytest.mark.parametrize("changes", [{"secret": b"x" * 32}, {}])
    async def test_a_forged_token_is_refused(self, bench, changes):
        await bench.ask()
        token = bench.token(**changes) if changes else bench.token().replace(".1.", ".2.", 1)
        with pytest.raises(Reject) as caught:
            await bench.answer(token=token, value=1)
        assert caught.value.code == "bad_signature"
        assert await bench.state() is TaskState.EXTERNAL

    async def test_a_token_of_a_former_secret_is_good(self, bench):
        await bench.ask()
        assert await bench.answer(token=bench.token(secret=FORMER), value=1) == OK

    @pytest.mark.parametrize("changes", [{"task_no": 1 << 41}, {"attempt": 9}, {"batch_id": "01KB"}])
    async def test_a_token_of_nothing_we_have_is_unknown(self, bench, changes):
        with pytest.raises(Missing):
            await bench.answer(token=bench.token(**changes), value=1)

    @pytest.mark.parametrize(
        ("output", "code"),
        [
            ({"name": "x", "key": "staging/01KB0000000000000000000000/x"}, "bad_callback"),
            ({"name": "x", "key": f"{FOLDER}/b.txt"}, "bad_callback"),
            ({"name": "x", "key": f"{FOLDER}/_manifest.json"}, "bad_callback"),
            ({"name": "x", "key": f"{FOLDER}/../x"}, "bad_key"),
            ({"name": "x", "key": f"{FOLDER}/none"}, "missing"),
            ({"name": "x", "key": f"{FOLDER}/there", "size": 7}, "size_mismatch"),
            ({"name": "../x", "text": "-"}, "bad_name"),
            ({"name": "x", "text": "-", "preferred": "a/b"}, "bad_name"),
            ({"name": "x"}, "answer_refused"),
            ({"name": "x", "text": ""}, "answer_refused"),
            ({"name": "x", "text": "-", "key": f"{FOLDER}/there"}, "answer_refused"),
            ({"name": "x", "text": "-", "size": 1}, "answer_refused"),
        ],
    )
    async def test_outputs_that_cannot_be_right_are_refused_and_change_nothing(self, bench, output, code):
        await bench.blobs.put(f"{FOLDER}/there", b"there")
        await bench.ask()
        with pytest.raises(Reject) as caught:
            await bench.answer(value=1, outputs=[output])
        assert caught.value.code == code
        assert await bench.state() is TaskState.EXTERNAL
        assert await bench.answer(value=1) == OK, "a valid answer still wins"

    @pytest.mark.parametrize(
        "fields",
        [
            {"status": "error"},
            {"status": "error", "error": " "},
            {"status": "error", "error": "no", "value": 1},
            {"status": "error", "error": "no", "error_class": "No Class"},
            {"status": "error", "error": "no", "error_class": "no\n"},
            {"value": 1, "error": "no"},
            {"value": 1, "final": False},
            {"facts": {"n": 2**70}},
            {"outputs": [{"name": "x", "text": "1"}, {"name": "X", "text": "2"}]},
        ],
    )
    async def test_answers_that_contradict_themselves_are_refused(self, bench, fields):
        await bench.ask()
        with pytest.raises(Reject):
            await bench.answer(**fields)
        assert await bench.state() is TaskState.EXTERNAL

    async def test_an_answer_without_the_value_that_is_needed_is_named_by_the_next_step(self, bench):
        await bench.ask()
        assert await bench.answer(outputs=[{"name": "x.txt", "text": "-"}]) == OK
        assert (await bench.claim())["a.txt"].place.given is None

    async def test_an_answer_to_a_cancelled_batch_is_kept_and_changes_nothing(self, bench):
        await bench.ask()
        batch = await bench.ledger.get_batch(ID)
        await bench.ledger.cancel(batch.no, act())
        before = await bench.counts()
        answered = await bench.answer(value=1, outputs=[{"name": "x", "text": "-"}])
        assert answered in {DUPLICATE, LATE}
        assert await bench.answer(status="error", error="busy", final=False) in {DUPLICATE, LATE}
        assert await bench.counts() == before
        assert len(await bench.strays()) == 2
        bench.clock.advance(100.0)
        assert await bench.deadlines.settle_overdue(None) == 0

    async def test_a_batch_that_is_opened_again_waits_again(self, bench):
        await bench.ask(within=60.0)
        batch = await bench.ledger.get_batch(ID)
        await bench.ledger.cancel(batch.no, act())
        batch = await bench.ledger.reopen(batch.no, act(), status="ask")
        assert batch.position.stage is Stage.FLOWING
        if await bench.state() is TaskState.EXTERNAL:
            assert await bench.answer(value=1) == OK
            return
        former = bench.token()
        await bench.claim()
        assert bench.token() != former, "it is asked again"
        await bench.ask(within=60.0)
        assert await bench.answer(value=1) == OK

    async def test_an_answer_to_a_paused_batch_counts_and_nothing_follows_until_it_goes_on(self, bench):
        await bench.ask()
        batch = await bench.ledger.get_batch(ID)
        await bench.ledger.pause(batch.no, act())
        assert await bench.answer(value=1) == OK
        assert await bench.claim() == {}
        await bench.ledger.resume(batch.no, act())
        assert list(await bench.claim()) == ["a.txt"]

    async def test_the_deadline_of_a_paused_batch_counts(self, bench):
        await bench.ask(within=1.0)
        batch = await bench.ledger.get_batch(ID)
        await bench.ledger.pause(batch.no, act())
        bench.clock.advance(2.0)
        assert await bench.deadlines.settle_overdue(None) == 1
        assert await bench.claim() == {}

    async def test_a_retry_asks_again_under_a_new_token(self, bench):
        await bench.ask("a.txt")
        await bench.ask("b.txt")
        former = bench.token("a.txt")
        await bench.answer("a.txt", status="error", error="no")
        await bench.answer("b.txt", status="error", error="no")
        batch = await bench.ledger.get_batch(ID)
        assert batch.position.stage is Stage.ENDING
        await bench.end()
        batch = await bench.ledger.get_batch(ID)
        selection = TaskSelection(path="a.txt")
        names = [phase.name for phase in ASKING.phases]
        await bench.ledger.retry_flow(batch, selection, act(), waiting=(), names=names)
        await bench.claim()
        assert await bench.answer(token=former, value=1) == LATE
        await bench.ask()
        assert await bench.answer("a.txt", value=1) == OK
        assert (await bench.counts())[0] == (2, 1, 1)

    async def test_waiting_costs_nothing_and_an_answer_what_it_says(self, ledger):
        bench = AnswerBench(ledger)
        await bench.begin(budget=Budget(seconds=10.0, money_micros=1_000_000))
        await bench.ask("a.txt", within=1000.0)
        await bench.ask("b.txt", within=1000.0)
        bench.clock.advance(900.0)
        assert await bench.answer("a.txt", value=1, cost={"tokens_in": 5, "money": 0.25}) == OK
        batch = await ledger.get_batch(ID)
        assert batch.hold is None
        spent = (await ledger.count_tasks(batch.no))[0].spent
        assert (spent.seconds, spent.tokens_in, spent.money_micros) == (1.0, 5, 250_000)
        assert await bench.answer("b.txt", value=1, cost={"money": 0.75}) == OK
        assert (await ledger.get_batch(ID)).hold is Hold.BUDGET

    async def test_an_overdue_task_has_spent_no_time(self, ledger):
        bench = AnswerBench(ledger)
        await bench.begin(budget=Budget(seconds=10.0))
        await bench.ask("a.txt", within=100.0)
        bench.clock.advance(200.0)
        await bench.deadlines.settle_overdue(None)
        assert (await ledger.get_batch(ID)).hold is None

    async def test_a_member_that_dies_leaves_what_waits_for_an_answer(self, bench):
        await bench.ask("a.txt")
        claims = await bench.ledger.list_running(ME)
        assert [claim.order.file.path for claim in claims] == ["b.txt"]


class TestSqlite(AnswerSuite):
    @pytest.fixture
    async def ledger(self, tmp_path):
        database = SqliteDatabase(tmp_path / "quire.db")
        await database.open()
        ledger = SqliteLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()


@pytest.mark.service
class TestPostgres(AnswerSuite):
    @pytest.fixture
    async def ledger(self, postgres_server):
        database = PostgresDatabase(fresh_schema(postgres_server))
        await database.open()
        ledger = PostgresLedger(database)
        await ledger.prepare()
        yield ledger
        await database.close()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "`status`"),
        ({"status": "fine"}, "Invalid enum value"),
        ({"status": "success", "answer": 1}, "unknown field `answer`"),
        ({"status": "success", "outputs": [{"text": "x"}]}, "`name`"),
        ({"status": "success", "cost": {"money": -1}}, ">= 0"),
        ({"status": "error", "error_class": "x" * 41}, "length <= 40"),
    ],
)
def test_what_is_no_answer_is_refused(fields, words):
    with pytest.raises(Reject) as caught:
        read_answer(json.dumps(fields).encode())
    assert caught.value.code == "answer_refused"
    assert words in str(caught.value)


def test_an_answer_that_is_too_large_is_refused():
    with pytest.raises(Reject) as caught:
        read_answer(b" " * (MAX_BODY_BYTES + 1))
    assert caught.value.code == "too_large"
    assert "name their keys" in str(caught.value)


def test_a_message_has_the_token_of_its_task():
    token, answer = read_message(b'{"task": "t", "status": "success", "value": [1]}')
    assert (token, answer.value) == ("t", [1])
    with pytest.raises(Reject, match="`task`"):
        read_message(b'{"status": "success"}')
