"""Readiness from the first moment on, with dead workers that nobody buries, and what is counted."""

import os
import signal

import pytest

from tests.cases.standing import JSON, Standing
from tests.system.client import Client
from tests.system.deployment import wait_until

pytestmark = pytest.mark.system


def test_ready_is_said_once_and_early_requests_wait(standing: Standing) -> None:
    readiness = standing.readiness
    first = readiness.index(200)
    assert set(readiness[:first]) == {503}, "it was watched from the beginning"
    assert set(readiness[first:]) == {200}, "it went back and forth"
    assert standing.early is not None
    assert (standing.early.status, standing.early.json()) == (200, "early")


def test_dead_workers_that_nobody_buries(standing: Standing, client: Client) -> None:
    """Their supervisor is stopped, so that they stay zombies, and nobody starts new ones."""
    (worker,) = standing.toys.children()
    before = standing.brokers_metrics()
    standing.toys.send(signal.SIGSTOP)
    try:
        os.kill(worker.pid, signal.SIGKILL)
        wait_until(lambda: client.get("/readyz").status == 503, 20.0, "/readyz says 503")
        reasons = client.get("/readyz").json()["reasons"]
        assert any(reason.startswith("toy/toy: ") for reason in reasons), reasons
        assert client.get("/readyz?pipeline=stack").status == 200
        assert client.get("/livez").status == 200
        assert client.post("/pipelines/stack", b"[1]", JSON).status == 200
        late = client.post("/pipelines/toy", b"1", {**JSON, "X-Timeout-Ms": "100"})
        assert late.status in {503, 504}
    finally:
        standing.toys.send(signal.SIGCONT)
    standing.mill.wait_ready()
    assert client.post("/pipelines/toy", b"1", JSON).status == 200
    check_figures(standing, before)


def check_figures(standing: Standing, before: dict[str, float]) -> None:
    """A worker that is gone leaves no figure of its own, and what counts never counts down."""
    events = "millstream_broker_events_total"
    lost = f'{events}{{event="workers_lost"}}'
    wait_until(lambda: standing.brokers_metrics().get(lost, 0.0) > before.get(lost, 0.0), 20.0)
    after = standing.brokers_metrics()
    codes = "millstream_answers_total"  # of requests that came too late meanwhile
    new = {name for name in after.keys() - before.keys() if not name.startswith((events, codes))}
    assert not new
    assert not before.keys() - after.keys()
    down = [name for name in before if "_total" in name and after[name] < before[name]]
    assert not down
