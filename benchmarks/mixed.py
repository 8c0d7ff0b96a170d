"""Sends requests of mixed sizes, and checks every answer against what it must be.

Knows the soak's plug-in by what it answers, and no server. A wrong sum means that an array was
overwritten, mixed up or cut short on its way.
"""

import asyncio
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import aiohttp

REQUEST_TIMEOUT_S = 30.0
CHANNELS = 3
ITEM_BYTES = 4
MOST_SEED = 1000
# How often each comes in a hundred: tiny, 100 KB, 602 KB and 3 MB arrays, by their sides; the rest
# are uploads.
SIDES = {8: 50, 92: 20, 224: 15, 500: 5}
UPLOAD_BYTES = (200_000, 2_000_000)
UPLOADS = 10


class WrongAnswer(Exception):
    """An answer that is not what the request asked for; the message holds both."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request: an array [3, side, side] full of `seed`, or where `side` is 0 an upload."""

    seed: int
    side: int = 0
    upload_bytes: int = 0

    @property
    def body(self) -> bytes:
        if self.upload_bytes:
            return bytes([self.seed % 256]) * self.upload_bytes
        return json.dumps({"seed": self.seed, "side": self.side}).encode()

    @property
    def content_type(self) -> str:
        return "image/png" if self.upload_bytes else "application/json"

    @property
    def answer(self) -> dict[str, int]:
        """What the pipeline must say: arrays come doubled, uploads as they were."""
        if self.upload_bytes:
            return {"sum": self.seed % 256 * self.upload_bytes, "bytes": self.upload_bytes}
        elements = CHANNELS * self.side * self.side
        return {"sum": 2 * self.seed * elements, "bytes": elements * ITEM_BYTES}


def jobs(count: int, chance: random.Random) -> Iterator[Job]:
    """So many jobs of all sizes, in an order that `chance` alone decides."""
    kinds = [*SIDES, 0]
    weights = [*SIDES.values(), UPLOADS]
    for _ in range(count):
        seed = chance.randint(1, MOST_SEED)
        side = chance.choices(kinds, weights)[0]
        yield Job(seed, side) if side else Job(seed, upload_bytes=chance.randint(*UPLOAD_BYTES))


def tiny(count: int) -> Iterator[Job]:
    """So many of the smallest, after which no stage holds on to anything large."""
    return (Job(seed, min(SIDES)) for seed in range(1, count + 1))


def send(url: str, wanted: Iterable[Job], *, clients: int) -> None:
    """Send all, so many at a time. Raises WrongAnswer at the first that is not answered rightly."""
    asyncio.run(_send(url, iter(wanted), clients))


async def _send(url: str, wanted: Iterator[Job], clients: int) -> None:
    timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(clients):
                    group.create_task(_client(session, url, wanted))
        except* (WrongAnswer, aiohttp.ClientError, TimeoutError) as errors:
            first = errors.exceptions[0]
            raise WrongAnswer(f"{type(first).__name__}: {first}") from first


async def _client(session: aiohttp.ClientSession, url: str, wanted: Iterator[Job]) -> None:
    for job in wanted:
        headers = {"Content-Type": job.content_type}
        async with session.post(url, data=job.body, headers=headers) as response:
            said = await response.text()
        if response.status != 200 or json.loads(said) != job.answer:
            raise WrongAnswer(f"{job} was answered {response.status} {said}, not {job.answer}")
