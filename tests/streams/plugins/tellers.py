"""Plug-ins that answer value by value, and tell how they fared in files beside their pipeline."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from millstream import Reject, Worker

MARKS = Path(os.environ["STREAM_MARKS"])


def mark(name: str) -> None:
    """Say so for ever, by one byte more in a file."""
    with (MARKS / name).open("ab") as file:
        file.write(b".")


class Tell(Worker):
    """{"count": n} is answered by n values; anything else as it came."""

    max_batch_size = 64

    def forward(self, batch: list[Any]) -> list[Any]:
        return [tell(each) if isinstance(each, dict) else each for each in batch]


def tell(asked: dict[str, Any]) -> Iterator[Any]:
    """What a request asks for: how many values, how large, and which mishap at which of them."""
    try:
        for number in range(asked["count"]):
            if number == asked.get("at"):
                happen(asked["mishap"])
            yield "x" * asked["size"] if "size" in asked else {"n": number, "of": asked.get("id")}
    finally:
        mark(f"closed-{asked.get('id', '')}")


def happen(mishap: str) -> None:
    """Something goes wrong."""
    if mishap == "raise":
        raise RuntimeError("as asked")
    if mishap == "reject":
        raise Reject("not this one", 422)
    if mishap == "die":
        time.sleep(0.2)  # what it has told so far is on its way
        os.kill(os.getpid(), 9)
    if mishap == "nap":
        time.sleep(3600)


class Pace(Worker):
    """Values at even times, each saying when it was made; batches go on meanwhile."""

    max_batch_size = 64
    max_streams = 4096

    async def forward(self, batch: list[Any]) -> list[Any]:
        return [pace(each) if isinstance(each, dict) else each for each in batch]


async def pace(asked: dict[str, Any]) -> AsyncIterator[float]:
    """`count` values, `every_s` apart."""
    try:
        for _ in range(asked["count"]):
            yield time.monotonic()
            await asyncio.sleep(asked["every_s"])
    finally:
        mark(f"closed-{asked.get('id', '')}")


class Driven(Worker):
    """Async iterators, though `forward` has no event loop."""

    def forward(self, batch: list[Any]) -> list[Any]:
        return [pace(each) for each in batch]
