"""Embeddings: a text has the same vector in any company, and little of the work is padding."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from millstream import AsyncClient
from tests.examples.served.examples import needs, run_shown
from tests.system.client import Client
from tests.system.deployment import Deployment
from tests.system.readme import ROOT

pytestmark = [pytest.mark.system, needs("embeddings")]
EMBEDDINGS = ROOT / "examples" / "embeddings"
WORDS = (ROOT / "docs" / "streams.md").read_text().split()
TEXTS = [" ".join(WORDS[start : start + 1 + 7 * start]) for start in range(20)]


@pytest.fixture(scope="module")
def alone(mill: Deployment) -> list[NDArray[np.float32]]:
    """The vectors of each text by itself, unpadded and without a server."""
    import torch  # noqa: PLC0415
    from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(EMBEDDINGS / "model")
    model = AutoModel.from_pretrained(EMBEDDINGS / "model").eval()
    vectors = []
    with torch.inference_mode():
        for text in TEXTS:
            tokens = torch.tensor([tokenizer(text, truncation=True)["input_ids"]])
            mean = model(input_ids=tokens).last_hidden_state[0].mean(dim=0)
            vectors.append((mean / mean.norm()).numpy())
    return vectors


def test_a_text_has_the_same_vector_in_any_company(
    mill: Deployment, alone: list[NDArray[np.float32]]
) -> None:
    async def run() -> list[Any]:
        async with AsyncClient(f"http://127.0.0.1:{mill.port}", timeout_s=110.0) as client:
            asked = [
                client.call("embeddings", text.encode(), content_type="text/plain")
                for text in TEXTS
            ]
            return await asyncio.gather(*asked)

    vectors = asyncio.run(run())

    assert [vector.shape for vector in vectors] == [(64,)] * len(TEXTS)
    likeness = [float(ours @ theirs) for ours, theirs in zip(vectors, alone, strict=True)]
    assert min(likeness) > 0.9999
    others = [float(ours @ theirs) for ours, theirs in zip(vectors, alone[1:], strict=False)]
    assert min(others) < 0.999  # which shows that it is their own


def test_the_tokenizer_cuts_what_is_too_long(client: Client) -> None:
    answer = client.post("/pipelines/embeddings", b"mill " * 5000, {"Content-Type": "text/plain"})
    assert len(answer.json()) == 64


def test_buckets(load_script: Callable[[Path], ModuleType]) -> None:
    buckets = load_script(EMBEDDINGS / "embed.py").buckets
    assert buckets([20, 3, 512, 16, 17]) == [(16, [1, 3]), (32, [0, 4]), (512, [2])]
    assert [len(places) for _, places in buckets([500] * 40)] == [16, 16, 8]
    with pytest.raises(ValueError, match="empty"):
        buckets([513])


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"", "", 400),
        (b"no JSON", "application/json", 400),
        (b"\xff\xfe", "text/plain", 400),
        (b'{"text": "mill"}', "application/json", 422),
        (b" \n", "text/plain", 422),
    ],
    ids=["nothing", "no JSON", "no UTF-8", "an object", "blank"],
)
def test_what_is_no_text_is_refused(
    client: Client, body: bytes, content_type: str, status: int
) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    answer = client.post("/pipelines/embeddings", body, headers)
    assert (answer.status, answer.code) == (status, "rejected")


def test_what_the_page_shows(mill: Deployment) -> None:
    for ran in run_shown(mill, "embeddings"):
        written, shown = (np.fromstring(first(text), sep=",") for text in (ran.written, ran.shown))
        np.testing.assert_allclose(written, shown, atol=1e-3)


def first(text: str) -> str:
    """Of the numbers, those that were not cut."""
    return text.removeprefix("[").rpartition(",")[0]
