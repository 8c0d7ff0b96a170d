"""ONNX Runtime, JAX and TensorFlow in place of torch: versions of one pipeline that agree.

What comes before and after `infer` is the digits' own, and is started once for all of them.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from millstream import AsyncClient
from tests.examples.served.examples import EXAMPLES, is_installed, run_shown
from tests.system.client import Client
from tests.system.deployment import Deployment
from tests.system.readme import ROOT

pytestmark = pytest.mark.system
DIGITS = ROOT / "examples" / "digits"
SAMPLES = sorted((DIGITS / "samples").glob("*.png"))

elsewhere = pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            each.name,
            marks=pytest.mark.skipif(
                not is_installed(each), reason=f"{' or '.join(each.packages)} is not installed"
            ),
        )
        for each in EXAMPLES
        if each.version
    ],
)


@pytest.fixture(scope="module")
def by_torch(load_script: Callable[[Path], ModuleType]) -> list[dict[str, Any]]:
    """What the torch plug-in says of the samples, without a server."""
    plug_ins = [
        getattr(load_script(DIGITS / f"{name.lower()}.py"), name)()
        for name in ("Preprocess", "Infer", "Postprocess")
    ]
    preprocess, infer, postprocess = plug_ins
    infer.model_dir = DIGITS / "model"
    infer.setup()
    decoded = [preprocess.decode(path.read_bytes(), "image/png") for path in SAMPLES]
    answers: list[dict[str, Any]] = postprocess.forward(
        infer.forward(list(preprocess.forward(decoded)))
    )
    assert [answer["digit"] for answer in answers] == list(range(10))
    return answers


def close(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """The same digit, as sure of it."""
    same: bool = one["digit"] == other["digit"]
    return same and abs(one["probability"] - other["probability"]) < 0.003


@elsewhere
def test_it_answers_as_torch_does(
    client: Client, by_torch: list[dict[str, Any]], name: str
) -> None:
    for path, expected in zip(SAMPLES, by_torch, strict=True):
        answer = client.post(f"/pipelines/digits/versions/{name}", path.read_bytes())
        assert answer.status == 200, answer.body
        assert answer.headers["x-model-version"] == name
        assert close(answer.json(), expected)


@elsewhere
@pytest.mark.parametrize("count", [3, 40])
def test_batches_of_any_size_are_answered_alike(
    mill: Deployment, by_torch: list[dict[str, Any]], name: str, count: int
) -> None:
    """Many at once, so that batches are larger than one, and of sizes that are padded."""

    async def ask(client: AsyncClient, number: int) -> bool:
        body = SAMPLES[number % 10].read_bytes()
        answer = await client.call("digits", body, content_type="image/png", version=name)
        return close(answer, by_torch[number % 10])

    async def run() -> list[bool]:
        async with AsyncClient(f"http://127.0.0.1:{mill.port}", timeout_s=110.0) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(count)))

    assert all(asyncio.run(run()))


@elsewhere
def test_what_the_page_shows(mill: Deployment, name: str) -> None:
    for ran in run_shown(mill, name):
        assert close(json.loads(ran.written), json.loads(ran.shown))
