"""A model repository in a running deployment: versions come, fail and are repaired."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.client import Client
from tests.system.deployment import READY_S, Deployment, Role, wait_until

pytestmark = pytest.mark.system

STOCKED = Path(__file__).parents[1] / "plugins" / "stocked.py"
PIPELINES = '[pipelines.stocked]\nchain = ["stocked"]\n'
PATH = "/pipelines/stocked"


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    """One that has no version yet."""
    with Deployment(pipelines=PIPELINES) as mill:
        (mill.folder / "models").mkdir()
        mill.broker()
        env = {"MILLSTREAM_MODELS": "models", "MILLSTREAM_STAGE": "stocked"}
        mill.worker(STOCKED, env=env)
        mill.gateway().wait_for_output("listening")
        yield mill


@pytest.fixture
def worker(mill: Deployment) -> Role:
    return next(role for role in mill.roles if role.name == "worker")


@pytest.fixture
def client(mill: Deployment) -> Iterator[Client]:
    with mill.client() as client:
        yield client


def put(mill: Deployment, version: str, how: str) -> None:
    """As one does it: made elsewhere, moved into place."""
    made = mill.folder / f"made-{version}"
    made.mkdir()
    (made / "how").write_text(how)
    made.rename(mill.folder / "models" / version)


def wait_answer(client: Client, version: str, answer: list[str]) -> None:
    """Until this version answers so."""

    def answers() -> bool:
        got = client.post(f"{PATH}/versions/{version}", b"0")
        return got.status == 200 and got.json() == answer

    wait_until(answers, READY_S, f"version {version} answers {answer}")


def test_from_no_version_to_one_that_fails_and_is_repaired(
    mill: Deployment, worker: Role, client: Client
) -> None:
    wait_until(
        lambda: any(
            "no complete version yet" in r for r in client.get("/readyz").json()["reasons"]
        ),
        READY_S,
        "GET /readyz says why",
    )
    put(mill, "1", "fine")
    mill.wait_ready()
    wait_answer(client, "1", ["1", "1", "fine"])
    answer = client.post(PATH, b"0")
    assert (answer.status, answer.headers["x-model-version"]) == (200, "1")

    put(mill, "2", "raise")
    worker.wait_for_output("version 2 has no weights")
    assert client.get("/readyz").status == 200
    assert client.post(PATH, b"0").json() == ["1", "1", "fine"]
    (mill.folder / "models/2/how").write_text("repaired")
    wait_answer(client, "2", ["2", "2", "repaired"])
    wait_answer(client, "1", ["1", "1", "fine"])  # kept warm
    assert {each["version"] for each in mill.workers()} == {"1", "2"}
