"""The suites are in several modules of the package; pytest explains their failures when told to."""

import pytest

pytest.register_assert_rewrite(
    "quire.testing.compute_suite",
    "quire.testing.presigned_suite",
    "quire.testing.api_keys_suite",
    "quire.testing.ledger_closing_suite",
    "quire.testing.ledger_control_suite",
    "quire.testing.ledger_tasks_suite",
    "quire.testing.webhooks_suite",
    "quire.testing.ledger_submissions_suite",
    "quire.testing.ledger_records_suite",
    "quire.testing.ledger_rounds_suite",
    "quire.testing.ledger_situations",
    "quire.testing.ledger_units_suite",
    "quire.testing.objects_suite",
    "tests.situations.queue_model",
    "quire.testing.queues_dead_suite",
    "quire.testing.queues_overview_suite",
    "quire.testing.queues_suite",
)
