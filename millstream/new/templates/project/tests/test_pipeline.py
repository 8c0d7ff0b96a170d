"""The chain in this process: what workers do, without a server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.testing import Pipeline, pipeline

HERE = Path(__file__).parents[1]
STAGES = ("preprocess.py", "infer.py", "postprocess.py")


@pytest.fixture(scope="module")
def run() -> Iterator[Pipeline]:
    with pipeline(HERE / "pipeline.toml", *(HERE / stage for stage in STAGES)) as run:
        yield run


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Do you know where the library is?", "english"),
        ("Wissen Sie, wo die Bibliothek ist?", "german"),
        ("Savez-vous où se trouve la bibliothèque ?", "french"),
        ("¿Sabe usted dónde está la biblioteca?", "spanish"),
        ("Sa dove si trova la biblioteca?", "italian"),
    ],
)
def test_languages(run: Pipeline, text: str, language: str) -> None:
    assert run(json=text).json()["language"] == language


def test_plain_text_does_as_well(run: Pipeline) -> None:
    answer = run("Wie spät ist es?", content_type="text/plain")
    assert answer.raise_for_status().json()["language"] == "german"


def test_many_at_once(run: Pipeline) -> None:
    answers = run.batch(json=["How much is it?", "", "Was kostet das?"])
    assert [answer.status for answer in answers] == [200, 422, 200]


def test_what_is_no_text(run: Pipeline) -> None:
    answer = run(json=5)
    assert (answer.status, answer.code) == (422, "rejected")
