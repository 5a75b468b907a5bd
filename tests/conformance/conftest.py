"""The suites are in several modules of the package; pytest explains their failures when told to."""

import pytest

pytest.register_assert_rewrite(
    "quire.testing.compute_suite",
    "quire.testing.presigned_suite",
    "quire.testing.presigned_urls_suite",
    "tests.suites.api_keys_suite",
    "tests.suites.flow_situations",
    "tests.suites.ledger_adoption_suite",
    "tests.suites.ledger_closing_suite",
    "tests.suites.ledger_control_suite",
    "tests.suites.ledger_flow_control_suite",
    "tests.suites.ledger_flow_joins_suite",
    "tests.suites.ledger_flow_settle_suite",
    "tests.suites.ledger_flow_suite",
    "tests.suites.ledger_flow_units_suite",
    "tests.suites.ledger_tasks_suite",
    "tests.suites.webhooks_suite",
    "tests.suites.ledger_submissions_suite",
    "tests.suites.ledger_records_suite",
    "tests.suites.ledger_rounds_suite",
    "tests.suites.ledger_situations",
    "tests.suites.ledger_units_suite",
    "quire.testing.objects_suite",
    "tests.situations.queue_model",
    "quire.testing.queues_dead_suite",
    "quire.testing.queues_overview_suite",
    "quire.testing.queues_suite",
)
