"""The chain in this process: what workers do, without a server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.testing import Pipeline, pipeline

APP = Path(__file__).parents[1] / "app.py"


@pytest.fixture(scope="module")
def run() -> Iterator[Pipeline]:
    with pipeline(APP) as run:
        yield run


def test_a_question(run: Pipeline) -> None:
    assert run(json="What does your flour cost?").json()["answer"].startswith("Two a bag")


def test_many_at_once(run: Pipeline) -> None:
    answers = run.batch(json=["May I park my car here?", "", "When do you open?"])
    assert [answer.status for answer in answers] == [200, 422, 200]
