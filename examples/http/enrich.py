"""Enrich: an order gets its price from another service, which is asked over HTTP.

`PRICES_URL` names that service. A request waits there for as long as its own client waits, and no
longer; an answer that may come right a moment later is asked for again until then.
"""

import asyncio
import os
import random
import time
from typing import Any

import aiohttp
import msgspec

from millstream import Reject, RequestInfo, Worker

URL = os.environ.get("PRICES_URL", "http://127.0.0.1:8100")
TRY_S = 5.0
"""For one try: a service that hangs is asked again while there is time."""
SPARE_S = 0.05
"""Of the deadline, for what comes after this stage."""
AGAIN = {429, 502, 503, 504}


class Order(msgspec.Struct):
    article: str
    count: int = 1


class Enrich(Worker):
    # One item in each batch, so that nobody waits for a neighbour's answer, and many batches.
    max_batch_size = 1
    concurrency = 512
    inputs = Order

    async def setup(self) -> None:
        connector = aiohttp.TCPConnector(limit=self.concurrency)  # aiohttp's own bound is 100
        self.session = aiohttp.ClientSession(URL, connector=connector)
        self.retries = self.metrics.counter("price_retries", "Tries after the first.")
        # Costs no call: the worker is warmed up, and found to work, while that service is down.
        self.example = Order("flour", count=0)

    async def teardown(self) -> None:
        await self.session.close()

    async def forward(self, batch: list[Order], requests: list[RequestInfo]) -> list[Any]:
        (order,), (request,) = batch, requests
        price = await self.price(order.article, request) if order.count else 0.0
        return [{"article": order.article, "count": order.count, "total": price * order.count}]

    async def price(self, article: str, request: RequestInfo) -> float:
        """Raises Reject where the service does not know the article, and the last try's error."""
        until = request.deadline - SPARE_S
        pause_s = 0.05
        while True:
            try:
                return await self.ask(article, request, min(TRY_S, until - time.monotonic()))
            except (aiohttp.ClientError, TimeoutError) as error:
                # By chance, so that those that failed together do not come back together.
                wait_s = random.uniform(0.5, 1.0) * pause_s
                if not may_come_right(error) or time.monotonic() + wait_s >= until:
                    raise
                self.retries.inc()
                await asyncio.sleep(wait_s)
                pause_s = min(2 * pause_s, 1.0)

    async def ask(self, article: str, request: RequestInfo, within_s: float) -> float:
        headers = {"X-Request-Id": request.request_id}
        if request.traceparent:
            headers["traceparent"] = request.traceparent
        async with self.session.get(
            "/prices",
            params={"article": article},
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=max(within_s, 0.001)),
        ) as answer:
            if answer.status == 404:
                raise Reject(f"there is no article {article!r}", status=404)
            answer.raise_for_status()
            return float((await answer.json())["price"])


def may_come_right(error: Exception) -> bool:
    """Whether a moment later the answer may be another: it was no answer, or one that says so."""
    return not isinstance(error, aiohttp.ClientResponseError) or error.status in AGAIN
