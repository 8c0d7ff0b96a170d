"""The page with much and with nothing: twelve stages, two hundred workers, long names, no data.

What it is sent here is made by the real core; only the gateway around it is not there.
"""

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import web

from broker.core.snapshot import Extent, Snapshot
from gateway.ui import files
from gateway.ui.feed import GatewayState
from gateway.ui.slowest import SlowRequest
from tests.edges import chromium
from tests.edges.chromium import Chromium
from tests.unit.broker.core.driver import Driver, pipeline

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium"),
]

LONG = "a-stage-with-a-name-that-somebody-thought-was-a-good-idea"
WIDTHS = (390, 1280)


def much() -> Snapshot:
    """Twelve stages, the first of which has two hundred workers, and more than it can do."""
    chain = [LONG, *(f"stage{number}" for number in range(1, 12))]
    driver = Driver(big=pipeline(*chain), **{f"other-{n}": pipeline(LONG) for n in range(4)})
    driver.gateway()
    for number in range(200):
        driver.worker(b"w%d" % number, LONG, index=number, host="host-" * 10, pipeline="big")
    for number, stage in enumerate(chain[1:]):
        driver.worker(b"x%d" % number, stage, by=b"s%d" % (2 + number))
    driver.submit(1000, pipeline="big")
    driver.run(3.0)
    driver.lose(b"w7", "signal 9 (SIGKILL)")
    driver.run(1.0)
    return driver.scheduler.snapshot(driver.now, Extent(points=300, events=200))


def nothing() -> Snapshot:
    """A broker that has just begun."""
    return Driver(p=pipeline("a")).scheduler.snapshot(100.0, Extent(points=300, events=200))


def gateway(slowest: list[SlowRequest]) -> GatewayState:
    return GatewayState(
        pid=1,
        host="h",
        uptime_s=1.0,
        broker_up=True,
        trouble="",
        draining=False,
        requests_per_s=0.0,
        connections=1,
        waiting=0,
        lag_ms=0.0,
        viewers=1,
        statuses=[],
        slowest=slowest,
    )


async def serve(snapshot: Snapshot, slowest: list[SlowRequest]) -> tuple[web.AppRunner, str]:
    """Something that the page takes for a gateway; and its URL."""
    state = msgspec.json.encode({"gateway": gateway(slowest), "broker": snapshot})

    async def events(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(60):
            await response.write(b"event: state\ndata: %b\n\n" % state)
            await asyncio.sleep(0.3)
        return response

    async def file(request: web.Request) -> web.Response:
        found = files.read(request.match_info.get("name", ""))
        if found is None:
            raise web.HTTPNotFound
        return web.Response(body=found[1], headers={"Content-Type": found[0]})

    app = web.Application()
    app.router.add_get("/ui/events", events)
    app.router.add_get("/ui", file)
    app.router.add_get("/ui/{name}", file)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port: int = runner.addresses[0][1]
    return runner, f"http://127.0.0.1:{port}/ui"


async def look(
    browser: Chromium, snapshot: Snapshot, slowest: list[SlowRequest], expression: str
) -> Any:
    """At each width: nothing is wider than the window. Returns what the page then says to this."""
    runner, url = await serve(snapshot, slowest)
    try:
        await browser.open(url)
        await browser.wait_for("Number(document.body?.dataset.drawn) > 1")
        for width in WIDTHS:
            await browser.look(width=width, height=900, scheme="light")
            drawn = await browser.run("Number(document.body.dataset.drawn)")
            await browser.wait_for(f"Number(document.body.dataset.drawn) > {drawn}")
            assert await browser.run("document.documentElement.scrollWidth") <= width
        return await browser.run(expression)
    finally:
        await browser.open("about:blank")  # or it would complain that its answer breaks off
        await browser.wait_for("location.href === 'about:blank'")
        await runner.cleanup()


def test_much_and_nothing() -> None:
    async def watch() -> None:
        slow = SlowRequest(3.0, 0.0, "i" * 64, "big", "1", 504, "deadline_exceeded", [LONG], [])
        async with Chromium() as browser:
            counted = (
                "({stages: document.querySelectorAll('.stage').length,"
                " rows: document.querySelectorAll('#workers tbody tr').length,"
                " lost: document.querySelectorAll('#workers tr[data-state=lost]').length,"
                " tabs: document.querySelectorAll('#pipelines a').length})"
            )
            found = await look(browser, much(), [slow], counted)
            assert found == {"stages": 12, "rows": 211, "lost": 1, "tabs": 5}
            said = "[...document.querySelectorAll('.empty')].filter((each) => !each.hidden).length"
            assert await look(browser, nothing(), [], said) == 5
            assert browser.complaints == []

    asyncio.run(watch())
