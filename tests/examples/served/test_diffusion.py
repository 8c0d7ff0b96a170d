"""Stable Diffusion: PNGs of the right size, and a seed draws the same picture in any company."""

import asyncio
import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from millstream import AsyncClient
from tests.examples.served.examples import needs, run_shown
from tests.system.client import Client
from tests.system.deployment import Deployment

pytestmark = [pytest.mark.system, needs("diffusion")]
PATH = "/pipelines/diffusion"


def pixels(body: bytes) -> NDArray[np.int16]:
    image = Image.open(io.BytesIO(body), formats=["PNG"])
    assert image.size == (64, 64)
    return np.asarray(image, np.int16)


def test_a_seed_draws_the_same_picture_in_any_company(mill: Deployment, client: Client) -> None:
    asked: list[dict[str, Any]] = [
        {"prompt": "a water mill", "seed": 7},
        {"prompt": "a water mill", "seed": 8},
        {"prompt": "two stones", "seed": 7},
        {"prompt": "a water mill", "seed": 7, "negative_prompt": "rain"},
    ]

    async def run() -> list[bytes]:
        async with AsyncClient(f"http://127.0.0.1:{mill.port}", timeout_s=110.0) as caller:
            calls = [
                caller.call("diffusion", each, content_type="application/json") for each in asked
            ]
            return list(await asyncio.gather(*calls))

    together = [pixels(body) for body in asyncio.run(run())]
    alone = client.post_json(PATH, asked[0])

    assert alone.headers["content-type"] == "image/png"
    assert np.abs(pixels(alone.body) - together[0]).max() <= 2
    for other in together[1:]:
        assert np.abs(other - together[0]).max() > 10


@pytest.mark.parametrize(
    "asked",
    [{"prompt": ""}, {"prompt": "mill", "seed": -1}, {"prompt": ["mill"]}, {"seed": 7}],
    ids=["no words", "a seed below 0", "a list", "no prompt"],
)
def test_what_is_no_prompt_is_refused(client: Client, asked: dict[str, Any]) -> None:
    answer = client.post_json(PATH, asked)
    assert (answer.status, answer.code) == (422, "rejected")


def test_what_the_page_shows(mill: Deployment) -> None:
    for ran in run_shown(mill, "diffusion"):
        assert ran.written == ran.shown
