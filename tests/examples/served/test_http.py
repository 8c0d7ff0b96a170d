"""A stage that asks another service over HTTP, which is well, slow, failing, or not there."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.examples.served.examples import needs, run_shown
from tests.system.client import Client
from tests.system.deployment import Deployment, wait_until
from tests.system.readme import ROOT

pytestmark = [pytest.mark.system, needs("http")]
PATH = "/pipelines/orders"
HTTP = ROOT / "examples" / "http"
AT_ONCE = 500

Answer = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def prices(port: int, answer: Answer) -> AsyncIterator[None]:
    """The other service, as this test wants it."""
    app = web.Application()
    app.router.add_get("/prices", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, backlog=2 * AT_ONCE).start()
        yield
    finally:
        await runner.cleanup()


async def order(
    mill: Deployment, article: str, *, timeout_ms: int = 30_000, number: int = 0
) -> tuple[int, Any]:
    """Status and body of one order's answer."""
    url = f"http://127.0.0.1:{mill.port}{PATH}"
    headers = {"X-Timeout-Ms": str(timeout_ms), "X-Request-Id": f"{article}-{number}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json={"article": article, "count": 4}, headers=headers) as answer,
    ):
        return answer.status, await answer.json()


def price_of(cents: int) -> web.Response:
    return web.json_response({"price": cents / 100})


def test_one_process_waits_for_hundreds_of_answers_at_once(
    mill: Deployment, prices_port: int
) -> None:
    waiting: set[str] = set()
    all_wait = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        waiting.add(request.headers["X-Request-Id"])
        if len(waiting) == AT_ONCE:
            all_wait.set()
        await all_wait.wait()  # nobody is answered before all have asked
        return price_of(125)

    async def run() -> list[tuple[int, Any]]:
        async with prices(prices_port, answer):
            return await asyncio.gather(
                *(order(mill, "flour", number=number) for number in range(AT_ONCE))
            )

    answers = asyncio.run(run())

    assert [status for status, _ in answers] == [200] * AT_ONCE
    assert {body["total"] for _, body in answers} == {5.0}


def test_what_may_come_right_is_asked_again(mill: Deployment, prices_port: int) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.headers["X-Request-Id"])
        return web.Response(status=503) if len(asked) < 3 else price_of(50)

    async def run() -> tuple[int, Any]:
        async with prices(prices_port, answer):
            return await order(mill, "bran")

    status, body = asyncio.run(run())

    assert (status, body) == (200, {"article": "bran", "count": 4, "total": 2.0})
    assert asked == ["bran-0"] * 3


@pytest.mark.parametrize(("theirs", "ours"), [(404, 404), (400, 500)])
def test_what_will_not_come_right_is_asked_once(
    mill: Deployment, prices_port: int, theirs: int, ours: int
) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=theirs)

    async def run() -> tuple[int, Any]:
        async with prices(prices_port, answer):
            return await order(mill, "chaff")

    status, body = asyncio.run(run())

    assert (status, asked) == (ours, ["/prices"])
    if ours == 404:
        assert "chaff" in body["error"]["message"]


def test_a_service_that_is_down_is_waited_for_until_the_deadline(
    mill: Deployment,
) -> None:
    async def run() -> tuple[int, Any]:
        return await order(mill, "flour", timeout_ms=600)

    status, body = asyncio.run(run())

    assert (status, body["error"]["code"]) in [(500, "worker_error"), (504, "deadline_exceeded")]


def test_what_the_page_shows(mill: Deployment, prices_port: int) -> None:
    service = mill.spawn(
        ["sh", "-c", f"exec python {HTTP}/prices.py --port {prices_port}"],
        name="prices",
    )

    def is_up() -> bool:
        try:
            with Client(prices_port) as client:
                return client.get("/prices?article=flour").status == 200
        except OSError:
            return False

    wait_until(is_up, 20.0, "the other service answers")
    for ran in run_shown(mill, "http"):
        assert json.loads(ran.written) == json.loads(ran.shown)
    service.stop()
