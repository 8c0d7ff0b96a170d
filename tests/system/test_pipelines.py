"""Chains of stages through real processes: values, headers, deadlines, bounds, and a shared end."""

import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.client import Client, HttpAnswer
from tests.system.deployment import Deployment, wait_until

pytestmark = pytest.mark.system

STAGES = Path(__file__).parent / "plugins" / "stages.py"
PIPELINES = """
[pipelines.grown]
chain = ["to_array", "grow", "total"]
headers = ["X-Tenant"]

[pipelines.plain]
chain = ["to_array", "total"]

[pipelines.small]
chain = ["to_array", "grow", "total"]
max_items = 3
timeout_s = 5.0
"""
SLOW = b"[-1]"
"""A body that stays in the stage `grow` until there is a file `gate`."""


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    """One script serves three stages, of which two are in every pipeline."""
    with Deployment(pipelines=PIPELINES) as mill:
        mill.broker()
        mill.worker(f"{STAGES}:ToArray")
        mill.worker(f"{STAGES}:Grow", "--version", "3", env={"GATE": str(mill.folder / "gate")})
        mill.worker(f"{STAGES}:Total")
        mill.gateway()
        mill.wait_ready()
        yield mill


@pytest.fixture(scope="module")
def client(mill: Deployment) -> Iterator[Client]:
    with mill.client() as client:
        yield client


@pytest.fixture
def gate(mill: Deployment) -> Iterator[Path]:
    """The file that lets slow ones go on."""
    gate = mill.folder / "gate"
    yield gate
    gate.unlink(missing_ok=True)


def in_the_background(
    mill: Deployment, path: str, body: bytes, count: int
) -> tuple[list[threading.Thread], list[HttpAnswer]]:
    """That many requests at the same time; their answers are all there once they are joined."""
    answers: list[HttpAnswer] = []

    def ask() -> None:
        with mill.client() as client:
            answers.append(client.post(path, body))

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, answers


def test_values_pass_from_stage_to_stage(client: Client) -> None:
    headers = {"X-Request-Id": "one", "X-Tenant": "acme", "X-Other": "unseen"}
    answer = client.post("/pipelines/grown", b"[1, 2.5]", headers)
    assert answer.status == 200, answer.body
    assert answer.json() == {"sum": 9.5, "id": "one", "tenant": "acme"}
    assert answer.headers["x-request-id"] == "one"
    assert answer.headers["x-model-version"] == "3"
    timed = re.findall(r"(\w+)-(queue|run);dur=[0-9.]+", answer.headers["server-timing"])
    assert timed == [
        (stage, part) for stage in ("to_array", "grow", "total") for part in ("queue", "run")
    ]


def test_a_worker_serves_its_stage_in_every_pipeline(client: Client) -> None:
    answer = client.post("/pipelines/plain", b"[1, 2.5]", {"X-Tenant": "unseen"})
    assert answer.status == 200, answer.body
    assert answer.json()["sum"] == 3.5
    assert answer.json()["tenant"] is None  # this pipeline does not list the header


def test_a_version_can_be_asked_for(client: Client) -> None:
    assert client.post("/pipelines/grown/versions/3", b"[1]").json()["sum"] == 4.0
    assert client.post("/pipelines/grown/versions/4", b"[1]").code == "unknown_version"


def test_what_is_served_is_shown(client: Client) -> None:
    listed = client.get("/pipelines").json()
    assert [name in str(listed) for name in ("grown", "plain", "small")] == [True] * 3
    about = client.get("/pipelines/grown").json()
    assert about["chain"] == ["to_array", "grow", "total"]
    assert about["ready"] is True
    assert client.get("/pipelines/none").code == "unknown_pipeline"
    assert client.post("/inference", b"[1]").status == 404  # which of the three?


def test_the_deadline_of_a_request_is_kept(client: Client, gate: Path) -> None:
    began = time.monotonic()
    answer = client.post("/pipelines/grown", SLOW, {"X-Timeout-Ms": "200"})
    took_s = time.monotonic() - began
    assert (answer.status, answer.code) == (504, "deadline_exceeded")
    assert took_s > 0.15
    gate.touch()
    assert client.post("/pipelines/grown", b"[1]").status == 200


def test_beyond_its_bound_a_pipeline_refuses(mill: Deployment, client: Client, gate: Path) -> None:
    threads, answers = in_the_background(mill, "/pipelines/small", SLOW, 6)
    wait_until(lambda: len(answers) == 3, 15.0, "three are refused")
    gate.touch()
    for thread in threads:
        thread.join(20)
    counted = Counter(f"{answer.status} {answer.code}".strip() for answer in answers)
    assert counted == {"200": 3, "429 queue_full": 3}
    refused = next(answer for answer in answers if answer.status == 429)
    assert int(refused.headers["retry-after"]) >= 1
    assert client.post("/pipelines/small", b"[1]").status == 200


def test_what_is_under_way_is_answered_before_all_end(mill: Deployment, gate: Path) -> None:
    """The last test here: it ends the deployment."""
    threads, answers = in_the_background(mill, "/pipelines/grown", SLOW, 12)
    wait_until(lambda: mill.status()["pipelines"]["grown"]["items"] == 12, 15.0, "12 items")
    for role in mill.roles:
        role.send(signal.SIGTERM)
    gate.touch()
    for thread in threads:
        thread.join(20)
    assert [answer.status for answer in answers] == [200] * 12
    for role in mill.roles:
        role.check_exit()
