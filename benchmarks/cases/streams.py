"""Many streams at once on one worker, each of a few values a second, beside ordinary batches.

What counts is how long a value takes from the plug-in's `yield` to its client: both look at the
same clock. The clients are one process on the same cores, so their own time is in the figures.
"""

import asyncio
import json
import statistics
import time
from pathlib import Path

from benchmarks.peers.server import Exchange, Server, Workload

FOLDER = Path(__file__).resolve().parent.parent / "plugins" / "streams"
EVERY_S = 0.2
MOST_MS = 50.0
"""The median that it must stay below."""
PATH = "/pipelines/streams"


def run(millstream: Server, *, streams: int, seconds: int) -> str:
    """Print the figures; the fault that they have, or ""."""
    exchange = Exchange(PATH, b"1", "1")
    workload = Workload(
        title="streams",
        folder=FOLDER,
        pipeline="streams",
        chain=("pace",),
        exchanges={"millstream": exchange},
    )
    with millstream.deploy(workload) as target:
        port = int(target.url.removesuffix(PATH).rpartition(":")[2])
        lags, took = asyncio.run(_load(port, streams, max(2, round(seconds / EVERY_S))))
    if len(lags) < 2 or not took:
        return "nothing was measured"
    lag_ms, last_ms = _middle_and_most(lags)
    batch_ms, _ = _middle_and_most(took)
    print(f"{streams} streams, a value each {EVERY_S * 1e3:.0f} ms: {len(lags)} values")
    print(f"from yield to client: median {lag_ms:.1f} ms, 99 % within {last_ms:.1f} ms")
    print(f"ordinary requests meanwhile: {len(took)}, median {batch_ms:.1f} ms")
    return "" if lag_ms < MOST_MS else f"the median is not below {MOST_MS:.0f} ms"


def _middle_and_most(seconds: list[float]) -> tuple[float, float]:
    """The median and the 99th percentile, in milliseconds."""
    return 1e3 * statistics.median(seconds), 1e3 * statistics.quantiles(seconds, n=100)[98]


async def _load(port: int, streams: int, values: int) -> tuple[list[float], list[float]]:
    """How long each value took, and each ordinary request that was sent while all streams went."""
    loop = asyncio.get_running_loop()
    clients = []
    begun_s = time.monotonic()
    for number in range(streams):
        made = await loop.create_connection(lambda: _Stream(values), "127.0.0.1", port)
        clients.append(made[1])
        # Evenly over several intervals: who begins at once has a queue at the entrance.
        await asyncio.sleep(begun_s + number * 5 * EVERY_S / streams - time.monotonic())
    took: list[float] = []
    asking = asyncio.create_task(_ask(port, took))
    await asyncio.gather(*(client.ended for client in clients))
    asking.cancel()
    return [lag for client in clients for lag in client.lags], took


async def _ask(port: int, took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = _request(1)
    try:
        while True:
            begun = time.monotonic()
            writer.write(request)
            await reader.readuntil(b"\r\n\r\n1")
            took.append(time.monotonic() - begun)
            await asyncio.sleep(0.01)
    finally:
        writer.close()


def _request(body: object) -> bytes:
    text = json.dumps(body).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


class _Stream(asyncio.Protocol):
    """One stream, from its request to its end; what is late is found by looking at each value."""

    def __init__(self, values: int) -> None:
        self.lags: list[float] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = _request([values, EVERY_S])
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):  # of the event at the end
                self._transport.close()
            elif line.startswith(b"data: "):
                self.lags.append(now - float(line[6:]))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
