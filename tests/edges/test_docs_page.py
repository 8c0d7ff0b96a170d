"""The page /docs in a real browser: it asks nobody else, and runs a pipeline with an upload.

`SCREENSHOT=docs/swagger.png make test ARGS=tests/edges/test_docs_page.py` renews the picture.
"""

import asyncio
import os
from pathlib import Path

import pytest

from tests.edges import chromium
from tests.edges.chromium import Chromium
from tests.edges.conftest import DIGITS
from tests.system.deployment import Deployment

pytest.importorskip("swagger_ui", reason="swagger-ui-py is an optional extra")
pytestmark = pytest.mark.system

RUN = "#operations-digits-run_digits"
ANSWER = f"{RUN} .live-responses-table"


@pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium")
def test_an_image_is_tried_out(url: str) -> None:
    shot = asyncio.run(try_it_out(url))
    if picture := os.environ.get("SCREENSHOT"):
        Path(picture).write_bytes(shot)


async def try_it_out(url: str) -> bytes:
    """What the page looks like afterwards."""
    async with Chromium() as browser:
        await browser.open(f"{url}/docs")
        await browser.click(f"{RUN} .opblock-summary-control")
        await browser.click(f"{RUN} .try-out__btn")
        chosen = f"document.querySelector('{RUN} .opblock-section-request-body select')"
        await browser.wait_for(chosen)
        await browser.run(
            f"{chosen}.value = 'image/png',"
            f"{chosen}.dispatchEvent(new Event('change', {{bubbles: true}}))"
        )
        await browser.upload(f"{RUN} input[type=file]", DIGITS / "samples" / "3.png")
        await browser.click(f"{RUN} .execute")
        await browser.wait_for(f"document.querySelector('{ANSWER}')")
        text = await browser.run(f"document.querySelector('{ANSWER}').innerText")
        shot = await browser.screenshot(RUN, most_pixels=1470)
        asked = [each for each in browser.requested if not each.startswith(("data:", "about:"))]
    assert '"digit": 3' in text
    assert "x-model-version: 1" in text
    assert f"{url}/pipelines/digits" in asked
    assert [each for each in asked if not each.startswith((url, f"blob:{url}"))] == []
    assert browser.complaints == []
    return shot


def test_the_page_may_load_nothing_from_elsewhere(edge: Deployment) -> None:
    with edge.client() as client:
        for path in ("/docs", "/docs/swagger-ui-bundle.js", "/docs/start.js"):
            answer = client.get(path)
            assert answer.status == 200
            assert answer.headers["content-security-policy"].startswith("default-src 'self';")
        assert client.get("/docs/swagger-ui-bundle.js.map").code == "not_found"
