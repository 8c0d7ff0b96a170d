"""The page /ui in a real browser under load: what holds back is seen, and what dies, and who gets
what. axe-core looks for what people with screen readers or keyboards would stumble over.
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.edges import chromium
from tests.edges.chromium import Chromium
from tests.system.deployment import Deployment
from tests.ui.mill import Load

AXE = Path(__file__).parents[2] / ".venv/npm/node_modules/axe-core/axe.min.js"

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(120),
    pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium"),
]

CLIENTS = 48


async def open_page(browser: Chromium, mill: Deployment, width: int = 1280) -> None:
    await browser.look(width=width, height=900, scheme="dark")
    await browser.open(f"http://127.0.0.1:{mill.port}/ui#photos")
    await browser.wait_for("Number(document.body?.dataset.drawn) > 1")


def queued(stage: str) -> str:
    """How many wait there, as the page shows it."""
    return f"Number(document.querySelector('.stage[data-stage={stage}]').dataset.queued)"


def test_under_load(mill: Deployment) -> None:
    with Load(mill, CLIENTS):
        asyncio.run(watch(mill))


async def watch(mill: Deployment) -> None:
    async with Chromium() as browser:
        await open_page(browser, mill)
        # The slow stage is the one whose queue grows, and is named in the first line.
        await browser.wait_for("document.querySelector('.stage[data-stage=infer][data-held=true]')")
        assert await browser.run("document.querySelectorAll('.stage[data-held]').length") == 1
        others = f"{queued('decode')} + {queued('encode')}"
        await browser.wait_for(f"{queued('infer')} > 5 + {others}")
        words = "document.querySelector('#verdict').textContent"
        await browser.wait_for(f"{words}.includes('infer holds things back')")

        # The canary has its share, in numbers and as a bar.
        bar = "document.querySelector('#versions [data-version=\"2\"]')"
        await browser.wait_for(f"{bar}?.dataset.share === '25'")
        widths: list[str] = await browser.run(
            "[...document.querySelectorAll('#versions .bar i')].map((bar) => bar.style.width)"
        )
        assert widths == ["75%", "25%"]

        await die_and_come_back(browser, mill)

        await browser.wait_for("document.querySelector('#slow li .fall i[data-colour]')")
        assert await browser.run("document.querySelector('#slow .hidden').textContent") != ""
        hosts = {url.split("/")[2] for url in browser.requested if url.startswith("http")}
        assert hosts == {f"127.0.0.1:{mill.port}"}
        assert browser.complaints == []


async def die_and_come_back(browser: Chromium, mill: Deployment) -> None:
    """A killed worker is red, and ready again a little later; the events say so."""
    victim = next(each for each in mill.workers() if each["stage"] == "decode")
    row = "document.querySelector('#workers tr[data-stage=decode]')"
    colour = f"getComputedStyle({row}).backgroundColor"
    calm = await browser.run(colour)
    os.kill(victim["pid"], signal.SIGKILL)
    await browser.wait_for(f"{row}.dataset.state === 'lost'")
    assert await browser.run(colour) != calm
    await browser.wait_for(
        f"{row}.dataset.state === 'ready' && {row}.dataset.worker !== '{victim['id']}'"
    )
    why = await browser.run(f"{row}.innerText")
    # What its supervisor tells, or what the broker finds where it looks first.
    assert "SIGKILL" in why or "no connection" in why
    await browser.wait_for("document.querySelector('#events [data-what=worker_lost]')")


def test_drained_from_there_and_started_again(mill: Deployment) -> None:
    asyncio.run(drain_and_start(mill))


async def drain_and_start(mill: Deployment) -> None:
    victim = next(each for each in mill.workers() if each["version"] == "1")
    row = f"#workers tr[data-worker='{victim['id']}']"
    async with Chromium() as browser:
        await open_page(browser, mill)
        await browser.click(f"{row} button:first-of-type")
        await browser.click("#confirm button.strong")
        await browser.wait_for(f"document.querySelector(\"{row}\")?.dataset.state === 'drained'")
        assert victim["id"] not in [each["id"] for each in mill.workers()]
        await browser.click(f"{row} button:last-of-type")
        await browser.click("#confirm button.strong")
        await browser.wait_for(f'!document.querySelector("{row}")')
        await browser.wait_for(
            "document.querySelectorAll('#workers tr[data-state=ready]').length === 5"
        )
        # A worker that is there is relieved by another, and then leaves.
        other = next(each for each in mill.workers() if each["stage"] == "encode")
        row = f"#workers tr[data-worker='{other['id']}']"
        await browser.click(f"{row} button:last-of-type")
        await browser.click("#confirm button.strong")
        await browser.wait_for(f'!document.querySelector("{row}")')
        await browser.wait_for(
            "document.querySelectorAll('#workers tr[data-state=ready]').length === 5"
        )
        recycled = "document.querySelector('#events [data-what=worker_recycled]')?.textContent"
        await browser.wait_for(f"{recycled}?.includes('by ui@127.0.0.1')")
        assert browser.complaints == []


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed")
def test_nothing_serious_is_found_by_axe(mill: Deployment) -> None:
    with Load(mill, 4):
        asyncio.run(audit(mill))


async def audit(mill: Deployment) -> None:
    async with Chromium() as browser:
        await open_page(browser, mill)
        await browser.wait_for("document.querySelector('#slow li')")
        await browser.send("Runtime.evaluate", expression=AXE.read_text())
        for width in (1280, 390):
            for scheme in ("dark", "light"):
                await browser.look(width=width, height=900, scheme=scheme)
                drawn = await browser.run("Number(document.body.dataset.drawn)")
                await browser.wait_for(f"Number(document.body.dataset.drawn) > {drawn}")
                found: list[dict[str, Any]] = await browser.run(
                    "axe.run().then(({violations}) => violations.map("
                    "({id, impact, nodes}) => ({id, impact, nodes: nodes.map((n) => n.html)})))"
                )
                assert found == [], f"{width} {scheme}"
                assert await browser.run("document.documentElement.scrollWidth") <= width


def test_a_pipeline_without_workers_and_a_broker_that_goes_away(mill: Deployment) -> None:
    asyncio.run(lose_broker(mill))


async def lose_broker(mill: Deployment) -> None:
    broker = next(role for role in mill.roles if role.name == "broker")
    async with Chromium() as browser:
        await browser.open(f"http://127.0.0.1:{mill.port}/ui#idle")
        await browser.wait_for("Number(document.body?.dataset.drawn) > 1")
        words = await browser.run("document.querySelector('#verdict').textContent")
        assert words.startswith("Not ready. echo: no worker")
        assert await browser.run("!document.querySelector('#workers + .empty').hidden")
        await browser.run("location.hash = 'photos'")
        await browser.wait_for("document.querySelectorAll('.stage').length === 3")
        broker.kill()
        await browser.wait_for("!document.querySelector('#notice').hidden")
        assert "No broker answers" in await browser.run(
            "document.querySelector('#notice').innerText"
        )
        mill.broker("--state", "none")
        await browser.wait_for("document.querySelector('#notice').hidden")
        await browser.wait_for(
            "document.querySelectorAll('#workers tr[data-state=ready]').length === 5"
        )
        assert browser.complaints == []
