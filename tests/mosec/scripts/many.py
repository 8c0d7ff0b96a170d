"""A MOSEC script with a route for each feature that the tests look at."""

import argparse
import os
import time
from typing import Any

import numpy as np
from mosec import (
    ClientError,
    Runtime,
    Server,
    ServerError,
    SSEWorker,
    ValidationError,
    Worker,
    get_logger,
)
from mosec.errors import MosecTimeoutError
from mosec.mixin import MsgpackMixin, RedisShmIPCMixin, TypedMsgPackMixin
from msgspec import Struct

logger = get_logger()
parser = argparse.ArgumentParser()
parser.add_argument("--greeting", default="")
greeting = parser.parse_known_args()[0].greeting


class Halve(Worker):
    """Batches, of which one item may be wrong."""

    example = ({"x": 2},)

    def forward(self, data: list[Any]) -> list[Any]:
        if any(item.get("slow") for item in data):
            time.sleep(0.3)
        for item in data:
            if item.get("boom"):
                raise RuntimeError("nobody shall read this")
            if item.get("server"):
                raise ServerError("out of\norder")
            if item.get("client"):
                raise ClientError
            if item["x"] % 2:
                raise ValidationError(f"{item['x']} is odd")
        return [{"half": item["x"] // 2, "together": len(data)} for item in data]


class Who(Worker):
    """What a worker knows of itself, from its beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.known = [self.worker_id, self.stage, self.max_batch_size]

    def forward(self, data: Any) -> Any:
        return {
            "known": self.known,
            "now": [self.worker_id, self.stage, self.max_batch_size],
            "color": os.environ.get("COLOR"),
            "devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "greeting": greeting,
        }


class Sleep(Worker):
    """Takes as long as it is told, and cleans up when it is stopped."""

    def forward(self, data: Any) -> Any:
        try:
            time.sleep(data["s"])
        except MosecTimeoutError:
            logger.warning("cleaned up")
            raise
        return data


class Die(Worker):
    """Ends its process, the first time that a file is not there."""

    def forward(self, data: Any) -> Any:
        try:
            open(data["mark"], "x").close()
        except FileExistsError:
            return {"attempt": "second"}
        os.abort()


class Wrap(RedisShmIPCMixin, Worker):
    """An array in an object."""

    def forward(self, data: Any) -> Any:
        return {"x": np.arange(int(data["n"])), "list": [np.zeros(3)], "none": None}


class Write(RedisShmIPCMixin, Worker):
    """Writes into what it is given, as it may with MOSEC."""

    def forward(self, data: Any) -> Any:
        data["x"] += 1
        data["list"][0][:] = 5
        return {"x": data["x"].tolist(), "zeros": data["list"][0].tolist()}


class Order(Struct):
    """What a typed route takes."""

    name: str
    data: bytes = b""


class TakeOrder(TypedMsgPackMixin, Worker):
    """Checked before any work."""

    def forward(self, data: Order) -> Any:
        return data.data


class Take(Worker):
    """Any bytes."""

    def deserialize(self, data: bytes) -> Any:
        return data

    def forward(self, data: Any) -> Any:
        return data


class Length(Worker):
    """The last stage of one route, and one before the last of another."""

    def forward(self, data: list[Any]) -> list[Any]:
        return [{"length": len(each)} for each in data]


class Packed(MsgpackMixin, Worker):
    """In msgpack."""

    def forward(self, data: dict[str, int]) -> dict[str, int]:
        return data


class Spell(SSEWorker):
    """A letter at a time, each with two lines."""

    example = ({"text": "warm"},)

    def forward(self, data: list[Any]) -> Any:
        for item in data:
            if "text" not in item:
                raise ValidationError("text is required")
        for place, item in enumerate(data):
            for letter in item["text"]:
                self.send_stream_event(f"{letter}\nof {item['text']}", index=place)
            if item.get("fails"):
                raise ServerError("lost my voice")
        return data


if __name__ == "__main__":
    assert TakeOrder(), "workers can be made without a server, too"
    RedisShmIPCMixin.set_redis_url("redis://nowhere:1/0")
    take, order, length = Runtime(Take), Runtime(TakeOrder), Runtime(Length, max_batch_size=4)
    halve = Runtime(Halve, max_batch_size=8, max_wait_time=20)
    colors = [{"COLOR": "red", "CUDA_VISIBLE_DEVICES": "7"}, {"COLOR": "blue"}]
    server = Server()
    server.register_runtime(
        {
            "/inference": [halve],
            "/v2/halve": [halve],
            "/who": [Runtime(Who, num=2, env=colors)],
            "/sleep": [Runtime(Sleep, timeout=0.2)],
            "/die": [Runtime(Die)],
            "/wrap": [Runtime(Wrap), Runtime(Write)],
            "/length": [take, length],
            "/v1/length": [order, length, Runtime(Packed)],
            "/spell": [Runtime(Spell, max_batch_size=2, max_wait_time=50)],
        }
    )
    server.run()
