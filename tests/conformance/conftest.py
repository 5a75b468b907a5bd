"""The ledger's suite is in several modules of the package; pytest explains their failures when told to."""

import pytest

pytest.register_assert_rewrite(
    "quire.testing.ledger_control_suite",
    "quire.testing.ledger_floor_suite",
    "quire.testing.ledger_records_suite",
    "quire.testing.ledger_rounds_suite",
    "quire.testing.ledger_situations",
    "quire.testing.ledger_units_suite",
)
