"""The examples of docs/protocols.md for these protocols are run, and answer as they say."""

import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.system.deployment import Deployment
from tests.system.readme import ROOT, URL, block_with

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl"),
]

PAGE = ROOT / "docs" / "protocols.md"


@pytest.fixture(scope="module")
def sizes() -> Iterator[Deployment]:
    """The plug-in that is shown."""
    with Deployment(pipelines='[pipelines.sizes]\nchain = ["sizes"]\n') as mill:
        mill.broker()
        mill.worker(mill.write("sizes.py", block_with("python", "class Sizes", PAGE).text))
        mill.gateway()
        mill.wait_ready()
        yield mill


@pytest.mark.parametrize("words", [":classify", "ce-specversion"])
def test_what_is_shown_is_answered(sizes: Deployment, words: str) -> None:
    commands = block_with("sh", words, PAGE).lines
    shown = [json.loads(line) for line in block_with("json", ANSWERS[words], PAGE).lines]
    answers = []
    for command in commands:
        line = command.replace(URL, f"http://127.0.0.1:{sizes.port}").replace(
            "curl ", "curl -s ", 1
        )
        ran = subprocess.run(line, shell=True, capture_output=True, timeout=20, check=True)
        answers.append(json.loads(ran.stdout))
    assert answers == shown


ANSWERS = {":classify": '"results"', "ce-specversion": '"ready"'}
