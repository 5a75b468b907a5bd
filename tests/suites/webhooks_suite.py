"""What every store of webhooks promises, together with the ledger that writes their deliveries.

Needs the fixtures `ledger` and `webhooks`, on one database.
"""

from typing import Any

import pytest

from quire.events.port import Webhook, WebhookDelivery, WebhookStore
from quire.model.batch import Budget
from quire.model.errors import Missing, Stale
from quire.testing.factories import draft
from tests.suites.flow_situations import admitted, claimed, done, walked
from tests.suites.ledger_adapter import LedgerAdapter
from tests.suites.ledger_situations import act, finalized

LEASE = 60.0


def hook(hook_id: str = "hook_1", **changes: Any) -> Webhook:
    known: dict[str, Any] = {"url": "https://example.org/in", "secret": "whsec_c2VjcmV0", "created_at": 1.0}
    return Webhook(id=hook_id, **(known | changes))


async def due(webhooks: WebhookStore, now: float = 100.0, limit: int = 99) -> list[WebhookDelivery]:
    return await webhooks.lease_deliveries(limit=limit, now=now, lease_seconds=LEASE)


async def one_waiting(ledger: LedgerAdapter, webhooks: WebhookStore) -> None:
    await webhooks.add_webhook(hook(kinds=("batch_opened",)))
    await ledger.open_batch(draft(now=5.0))


class WebhookSuite:
    async def test_a_hook_comes_back_as_it_was_added(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await ledger.open_batch(draft())
        one = hook(batch_id="01B", kinds=("batch_done", "batch_failed"))
        await webhooks.add_webhook(one)
        assert await webhooks.get_webhook("hook_1") == one

    async def test_a_hook_needs_its_batch_and_an_id_of_its_own(self, webhooks: WebhookStore) -> None:
        with pytest.raises(Missing) as caught:
            await webhooks.add_webhook(hook(batch_id="nobody"))
        assert caught.value.code == "unknown_batch"
        await webhooks.add_webhook(hook())
        with pytest.raises(Stale):
            await webhooks.add_webhook(hook(url="https://example.org/other"))
        assert await webhooks.list_webhooks() == [hook()]

    async def test_what_concerns_no_batch_is_not_delivered(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await webhooks.add_webhook(hook())
        await ledger.record_action(act(), "key_created", {})
        assert await due(webhooks) == []
        assert await webhooks.list_deliveries(limit=9) == []

    async def test_an_unknown_hook_is_missing(self, webhooks: WebhookStore) -> None:
        for asked in (webhooks.get_webhook("nobody"), webhooks.disable_webhook("nobody", reason="", now=1.0)):
            with pytest.raises(Missing) as caught:
                await asked
            assert caught.value.code == "unknown_hook"

    async def test_hooks_are_listed_of_all_and_of_one_batch(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await ledger.open_batch(draft())
        await webhooks.add_webhook(hook("hook_2"))
        await webhooks.add_webhook(hook("hook_1", batch_id="01B"))
        assert [one.id for one in await webhooks.list_webhooks()] == ["hook_2", "hook_1"]
        assert [one.id for one in await webhooks.list_webhooks(batch_id="01B")] == ["hook_1"]
        assert [one.id for one in await webhooks.list_webhooks(batch_id="")] == ["hook_2"]
        assert await webhooks.list_webhooks(batch_id="nobody") == []

    async def test_every_event_is_delivered_in_order_to_who_wants_it(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await webhooks.add_webhook(hook())
        batch = await walked(ledger, await admitted(ledger, 1, phases=["ONE"]), phases=["ONE"])
        happened = await ledger.list_events(batch.no, limit=99)
        found = await due(webhooks)
        assert [(one.event_no, one.happened_at, one.kind) for one in found] == [one[:3] for one in happened]
        assert [one.kind for one in found][-1] == "batch_done"
        assert {(one.hook_id, one.batch_id, one.state, one.tries) for one in found} == {
            ("hook_1", "01B", "waiting", 1)
        }
        assert len({one.id for one in found}) == len(found)

    async def test_only_wanted_kinds_of_wanted_batches_are_delivered(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await ledger.open_batch(draft("01A"))
        await ledger.open_batch(draft("01B"))
        await webhooks.add_webhook(hook("all"))
        await webhooks.add_webhook(hook("kinds", kinds=("batch_cancelled", "batch_done")))
        await webhooks.add_webhook(hook("batch", batch_id="01B"))
        await webhooks.add_webhook(hook("both", batch_id="01A", kinds=("batch_done",)))
        await ledger.cancel(1, act())
        await ledger.set_priority(2, 1, act())
        found = {(one.hook_id, one.batch_id, one.kind) for one in await due(webhooks)}
        assert found == {
            ("all", "01A", "batch_cancelled"),
            ("kinds", "01A", "batch_cancelled"),
            ("all", "01B", "batch_prioritised"),
            ("batch", "01B", "batch_prioritised"),
        }

    async def test_an_event_that_was_rolled_back_is_not_delivered(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        batch = await ledger.open_batch(draft())
        await webhooks.add_webhook(hook())
        with pytest.raises(Stale):
            await ledger.resume(batch.no, act())
        assert await webhooks.next_delivery_at() is None
        assert await due(webhooks) == []

    async def test_what_happened_before_a_webhook_is_not_delivered(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await ledger.open_batch(draft())
        await webhooks.add_webhook(hook())
        assert await due(webhooks) == []

    async def test_a_batch_that_is_held_for_its_budget_is_delivered(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await webhooks.add_webhook(hook(kinds=("batch_held",)))
        batch = await admitted(ledger, budget=Budget(seconds=0.05))
        (claim,) = await claimed(ledger, batch, limit=1)
        await ledger.settle_flow(batch.no, [done(claim)], now=11.0)
        (found,) = await due(webhooks)
        assert (found.kind, found.happened_at) == ("batch_held", 11.0)
        assert "reason" in found.data

    async def test_a_delivery_is_leased_and_comes_again_when_no_result_is_recorded(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await one_waiting(ledger, webhooks)
        assert await webhooks.next_delivery_at() == 5.0
        assert await due(webhooks, 4.9) == []
        (first,) = await due(webhooks, 5.0)
        assert (first.tries, first.last_tried_at) == (1, 5.0)
        assert await due(webhooks, 64.9) == []
        assert await webhooks.next_delivery_at() == 65.0
        (again,) = await due(webhooks, 65.0)
        assert (again.no, again.id, again.tries) == (first.no, first.id, 2)

    async def test_the_earliest_are_given_first_and_no_more_than_asked_for(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await webhooks.add_webhook(hook(kinds=("batch_opened",)))
        for at, name in ((3.0, "C"), (1.0, "A"), (2.0, "B")):
            await ledger.open_batch(draft(name, now=at))
        assert {one.batch_id for one in await due(webhooks, limit=2)} == {"A", "B"}
        assert [one.batch_id for one in await due(webhooks, limit=2)] == ["C"]

    async def test_what_is_delivered_is_over(self, ledger: LedgerAdapter, webhooks: WebhookStore) -> None:
        await one_waiting(ledger, webhooks)
        (one,) = await due(webhooks)
        await webhooks.record_try(one.no, tries=1, status=204, error="", next_at=None, now=101.0)
        assert await due(webhooks, 1000.0) == []
        assert await webhooks.next_delivery_at() is None
        (logged,) = await webhooks.list_deliveries(limit=9)
        assert (logged.state, logged.tries, logged.next_at) == ("delivered", 1, None)
        assert (logged.last_status, logged.last_error, logged.last_tried_at) == (204, "", 101.0)

    async def test_what_failed_waits_for_its_next_try_or_is_given_up(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await one_waiting(ledger, webhooks)
        (one,) = await due(webhooks)
        await webhooks.record_try(one.no, tries=1, status=500, error="broken", next_at=200.0, now=101.0)
        assert await due(webhooks, 199.0) == []
        (again,) = await due(webhooks, 200.0)
        assert (again.last_status, again.last_error, again.tries) == (500, "broken", 2)
        await webhooks.record_try(one.no, tries=2, status=None, error="no answer", next_at=None, now=201.0)
        assert await due(webhooks, 9999.0) == []
        (logged,) = await webhooks.list_deliveries(limit=9)
        assert (logged.state, logged.last_status, logged.last_error) == ("failed", None, "no answer")

    async def test_a_try_that_was_overtaken_changes_nothing(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await one_waiting(ledger, webhooks)
        (first,) = await due(webhooks, 100.0)
        (second,) = await due(webhooks, 200.0)
        await webhooks.record_try(first.no, tries=1, status=500, error="late", next_at=None, now=201.0)
        assert [(one.state, one.last_error) for one in await webhooks.list_deliveries(limit=9)] == [
            ("waiting", "")
        ]
        await webhooks.record_try(second.no, tries=2, status=200, error="", next_at=None, now=202.0)
        assert [one.state for one in await webhooks.list_deliveries(limit=9)] == ["delivered"]

    async def test_nothing_more_goes_to_a_disabled_hook(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await one_waiting(ledger, webhooks)
        disabled = await webhooks.disable_webhook("hook_1", reason="gone", now=50.0)
        assert (disabled.disabled_at, disabled.disabled_reason) == (50.0, "gone")
        again = await webhooks.disable_webhook("hook_1", reason="other", now=60.0)
        assert (again.disabled_at, again.disabled_reason) == (50.0, "gone")
        await ledger.open_batch(draft("01C"))
        assert await due(webhooks) == []
        (logged,) = await webhooks.list_deliveries(limit=9)
        assert (logged.state, logged.next_at, "gone" in logged.last_error) == ("failed", None, True)
        assert await webhooks.redeliver([logged.no], now=70.0) == 0
        assert await webhooks.next_delivery_at() is None

    async def test_a_try_under_way_when_its_hook_is_disabled_may_still_arrive(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await one_waiting(ledger, webhooks)
        (one,) = await due(webhooks)
        await webhooks.disable_webhook("hook_1", reason="gone", now=101.0)
        await webhooks.record_try(one.no, tries=1, status=500, error="broken", next_at=110.0, now=102.0)
        assert [one.state for one in await webhooks.list_deliveries(limit=9)] == ["failed"]
        await webhooks.record_try(one.no, tries=1, status=200, error="", next_at=None, now=103.0)
        assert [one.state for one in await webhooks.list_deliveries(limit=9)] == ["delivered"]

    async def test_deliveries_are_sent_again_on_demand_under_their_old_name(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await one_waiting(ledger, webhooks)
        (one,) = await due(webhooks)
        await webhooks.record_try(one.no, tries=1, status=200, error="", next_at=None, now=101.0)
        assert await webhooks.redeliver([one.no, 999], now=300.0) == 1
        assert await webhooks.redeliver([], now=300.0) == 0
        (again,) = await due(webhooks, 300.0)
        assert (again.id, again.tries) == (one.id, 2)

    async def test_the_log_has_pages_and_a_choice(
        self, ledger: LedgerAdapter, webhooks: WebhookStore
    ) -> None:
        await webhooks.add_webhook(hook("hook_1"))
        await webhooks.add_webhook(hook("hook_2", kinds=("batch_opened",)))
        await finalized(ledger, ["f.tif"], "01A")
        await finalized(ledger, ["f.tif"], "01B")
        log = await webhooks.list_deliveries(limit=99)
        assert [one.no for one in log] == sorted((one.no for one in log), reverse=True)
        assert len(log) == 6
        page = await webhooks.list_deliveries(limit=2)
        assert page + await webhooks.list_deliveries(limit=99, before=page[-1].no) == log
        for hook_id, batch_id, wanted in (
            ("hook_2", None, 2),
            ("hook_1", None, 4),
            (None, "01A", 3),
            ("hook_2", "01A", 1),
            ("nobody", None, 0),
            (None, "nobody", 0),
        ):
            chosen: dict[str, Any] = {"hook_id": hook_id, "batch_id": batch_id}
            found = await webhooks.list_deliveries(**chosen, limit=99)
            assert len(found) == wanted
            assert found == [one for one in log if _is_of(one, hook_id, batch_id)]
            after_the_first = [one for one in found if one.no < log[0].no]
            assert await webhooks.list_deliveries(**chosen, before=log[0].no, limit=1) == after_the_first[:1]


def _is_of(one: WebhookDelivery, hook_id: str | None, batch_id: str | None) -> bool:
    return hook_id in {None, one.hook_id} and batch_id in {None, one.batch_id}
