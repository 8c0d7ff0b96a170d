"""Mixed requests, some of which kill workers: everybody counts the same, and nothing that clients
send makes a series.
"""

import pytest

from tests.counts.run import Outcome, play

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

MOST_SERIES = 700
MARKS = ("none-", "id-", "key-", "X-Own", "?q=")
"""What is in paths, headers and ids of requests, and in nothing else."""


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return play(count=2000, clients=48, deaths=6)


def test_clients_gateway_and_broker_count_the_same(outcome: Outcome) -> None:
    assert outcome.faults == []
    assert outcome.seen.sent >= 2000
    statuses = {status for status, _ in outcome.seen.answers}
    assert {200, 400, 404, 422, 500} <= statuses
    assert outcome.broker.sum("worker_losses_total", reason="died") > 0


def test_what_plug_ins_count_agrees_too(outcome: Outcome) -> None:
    broker = outcome.broker
    seen = broker.by("plugin_seen_total", "stage", "parity")
    assert set(seen) == {("count", "even"), ("count", "odd")}
    assert sum(seen.values()) == broker.sum("items_dispatched_total", stage="count")
    assert broker.sum("plugin_batch_sum") == sum(seen.values())
    assert broker.sum("plugin_batch_count") == broker.sum("batch_items_count", stage="count")
    assert broker.sum("plugin_last_number") > 0


def test_requests_make_no_series(outcome: Outcome) -> None:
    series = outcome.gateway.series | outcome.broker.series
    assert len(series) < MOST_SERIES
    values = {value for _, labels in series for _, value in labels}
    assert not [value for value in values if any(mark in value for mark in MARKS)]
    named = {dict(labels).get("pipeline", "moody") for _, labels in series}
    assert named == {"moody", "unknown"}
