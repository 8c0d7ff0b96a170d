"""OCR: words that were drawn are read back, whoever else sends pictures at the same time."""

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import pytest
from PIL import Image

from tests.examples.served.examples import needs, run_shown
from tests.system.client import Client
from tests.system.deployment import Deployment
from tests.system.readme import ROOT

pytestmark = [pytest.mark.system, needs("ocr")]
PATH = "/pipelines/ocr"
OCR = ROOT / "examples" / "ocr"


def png(image: Image.Image) -> bytes:
    body = io.BytesIO()
    image.save(body, "PNG")
    return body.getvalue()


def test_words_that_were_drawn_are_read_each_from_its_own_picture(
    mill: Deployment, load_script: Callable[[Path], ModuleType]
) -> None:
    draw = load_script(OCR / "make_sample.py").draw
    words = [["River", "Wheel"], ["Stone"], [], ["Ground", "to", "flour"], ["Sacks 17"]]
    pictures = [
        png(draw({(20, 20 + 50 * row): text for row, text in enumerate(lines)}, (240, 180)))
        for lines in words
    ]

    async def read(session: aiohttp.ClientSession, body: bytes) -> list[str]:
        async with session.post(f"http://127.0.0.1:{mill.port}{PATH}", data=body) as answer:
            if answer.status == 200:
                return [line["text"] for line in (await answer.json())["lines"]]
            # Where warming up took long, on a busy machine, so will they all: some have to wait.
            assert answer.status == 503
            await asyncio.sleep(float(answer.headers["Retry-After"]))
        return await read(session, body)

    async def read_all() -> list[list[str]]:
        async with aiohttp.ClientSession() as session:
            return await asyncio.gather(*(read(session, body) for body in pictures))

    assert asyncio.run(read_all()) == words


def test_boxes_are_where_the_words_are(client: Client) -> None:
    answer = client.post(PATH, (OCR / "samples" / "delivery.png").read_bytes())
    (line,) = [line for line in answer.json()["lines"] if line["text"] == "Rye flour"]
    left, top = line["box"][0]
    right, bottom = line["box"][2]
    assert left - 8 <= 24 <= left + 8
    assert top < 134 + 13 < bottom
    assert right < 300


@pytest.mark.parametrize("body", [b"", b"no picture", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_picture_is_refused(client: Client, body: bytes) -> None:
    answer = client.post(PATH, body, {"Content-Type": "image/png"})
    assert (answer.status, answer.code) == (400, "rejected")


def test_what_the_page_shows(mill: Deployment) -> None:
    for ran in run_shown(mill, "ocr"):
        written, shown = (json.loads(text)["lines"] for text in (ran.written, ran.shown))
        assert texts(written) == texts(shown)


def texts(lines: list[dict[str, Any]]) -> list[str]:
    return [line["text"] for line in lines]
