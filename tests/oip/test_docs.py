"""The examples of docs/protocols.md for this protocol are run against the model of the digits, and
answer as they say."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.ports import free_port
from tests.system.deployment import Deployment
from tests.system.readme import ROOT, URL, block_with

pytestmark = pytest.mark.system

PAGE = ROOT / "docs" / "protocols.md"
DIGITS = ROOT / "examples" / "digits"


@pytest.fixture(scope="module")
def grpc_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def digits(grpc_port: int) -> Iterator[Deployment]:
    """The example, as the page starts it."""
    pipelines = (DIGITS / "tensors.toml").read_text()
    with Deployment(pipelines=pipelines) as mill:
        mill.broker()
        mill.worker(str(DIGITS / "tensors.py"))
        mill.gateway("--grpc-port", str(grpc_port))
        mill.wait_ready(50.0)  # torch is loaded
        yield mill


def test_stock_clients(digits: Deployment, grpc_port: int) -> None:
    for client, place, port in (
        ("tritonclient.http", "127.0.0.1:8000", digits.port),
        ("tritonclient.grpc", "127.0.0.1:8001", grpc_port),
    ):
        code = block_with("python", client, PAGE).text.replace(place, f"127.0.0.1:{port}")
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
        assert ran.stdout == "[3]\n"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_by_hand(digits: Deployment) -> None:
    shown = [json.loads(line) for line in block_with("json", "model_name", PAGE).lines]
    answers = []
    for command in block_with("sh", "/v2/models/digits/infer", PAGE).lines:
        line = command.replace(URL, f"http://127.0.0.1:{digits.port}").replace(
            "curl ", "curl -s ", 1
        )
        ran = subprocess.run(line, shell=True, capture_output=True, timeout=60, check=True)
        answers.append(json.loads(ran.stdout))
    assert answers == shown


def test_a_request_without_pictures(digits: Deployment) -> None:
    with digits.client() as client:
        answer = client.post("/v1/models/digits:predict", b'{"inputs": {"image": []}}')
        assert answer.json() == {"outputs": {"digit": [], "scores": []}}


def test_classes(digits: Deployment) -> None:
    """Of TensorFlow Serving: the labels are the digits."""
    with digits.client() as client:
        blank = [[0.0] * 8] * 8
        answer = client.post(
            "/v1/models/digits:classify", json.dumps({"examples": [{"image": blank}]}).encode()
        )
        ((*scores,),) = answer.json()["results"]
        assert [label for label, _ in scores] == [str(digit) for digit in range(10)]
        assert max(scores, key=lambda each: each[1])[0] == "3"
