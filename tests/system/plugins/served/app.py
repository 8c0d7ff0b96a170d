"""One file with two pipelines, which share a stage: a class, a function, and one that waits."""

import os
from typing import Any

import aiohttp
import numpy as np
from beside import SUFFIX

from millstream import Pipeline, Worker, serve, stage


class Preprocess(Worker):
    max_batch_size = 32

    def setup(self) -> None:
        print("a line that a plug-in prints")

    def forward(self, batch: list[Any]) -> list[Any]:
        return [np.full(100_000, item["x"], np.float32) for item in batch]


@stage("answer", max_batch_size=32)
def answer(batch: list[Any]) -> list[Any]:
    return [{"y": float(item[0]) + 1, "pid": os.getpid(), "suffix": SUFFIX} for item in batch]


@stage("ask", concurrency=600)
async def ask(batch: list[Any]) -> list[Any]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        return [await _ask(session, item["url"]) for item in batch]


async def _ask(session: aiohttp.ClientSession, url: str) -> Any:
    async with session.get(url) as response:
        return {"heard": await response.json(), "pid": os.getpid()}


if __name__ == "__main__":
    serve(
        {"app": [Preprocess, answer.replicas(2)]},
        Pipeline(
            "asking",
            [ask],
            timeout_s=40.0,
            stages={"ask": {"max_queue_items": 2000, "forward_timeout_s": 40.0}},
        ),
        Pipeline("other", [Preprocess.replicas(stage="preprocess"), answer], attempts=1),
    )
