"""Models that declare what they take and give."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import numpy as np

from millstream import Tensor, Worker

DATATYPES = (
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "BF16", "FP32", "FP64", "BYTES",
)  # fmt: skip


class Echo(Worker):
    """What every echo does."""

    max_batch_size = 8

    def forward(self, batch: list[Any]) -> list[Any]:
        return batch


class All(Echo):
    """One tensor of each datatype."""

    inputs = {name: Tensor(name, [-1, -1]) for name in DATATYPES}  # noqa: RUF012
    outputs = inputs


class Pairs(Echo):
    """One tensor of numbers."""

    inputs = {"x": Tensor("FP32", [-1, 2])}  # noqa: RUF012
    outputs = inputs


class Texts(Echo):
    """A list of texts."""

    inputs = {"text": Tensor("BYTES", [-1])}  # noqa: RUF012
    outputs = inputs


class Head(Worker):
    """The first stage of two: it takes an image, as a dict of arrays."""

    inputs = {"image": Tensor("FP32", [-1, 2, 2])}  # noqa: RUF012

    def forward(self, batch: list[Any]) -> list[Any]:
        return [item["image"] for item in batch]


class Tail(Worker):
    """The last stage of two: just one output, and so its array alone. It breaks its word where the
    sum is negative."""

    outputs = {"sum": Tensor("FP64", [-1])}  # noqa: RUF012

    def forward(self, batch: list[Any]) -> list[Any]:
        sums = [np.sum(image, axis=(1, 2), dtype=np.float64) for image in batch]
        return [{"no such": each} if np.any(each < 0) else each for each in sums]


class Slow(Worker):
    """An echo that takes as many seconds as it is told."""

    max_batch_size = 8
    inputs = {"seconds": Tensor("FP32", [1])}  # noqa: RUF012
    outputs = inputs

    def forward(self, batch: list[Any]) -> list[Any]:
        time.sleep(max(float(item["seconds"][0]) for item in batch))
        return batch


class Count(Worker):
    """Answers value by value: from 1 to what it is given, and fails at 13."""

    max_batch_size = 8
    inputs = {"to": Tensor("INT32", [1])}  # noqa: RUF012
    outputs = {"number": Tensor("INT32", [1]), "square": Tensor("INT64", [1])}  # noqa: RUF012

    def forward(self, batch: list[Any]) -> list[Iterator[dict[str, list[int]]]]:
        return [self.numbers(int(item["to"][0])) for item in batch]

    def numbers(self, to: int) -> Iterator[dict[str, list[int]]]:
        for number in range(1, to + 1):
            if number == 13:
                raise ValueError("thirteen")
            yield {"number": [number], "square": [number * number]}


class Point(msgspec.Struct):
    """A body that is an object."""

    x: float
    y: Annotated[int, msgspec.Meta(ge=0)] = 0


class Objects(Worker):
    """Takes objects and gives objects."""

    inputs = Point
    outputs = Point

    def forward(self, batch: list[Point]) -> list[Point]:
        return [Point(point.x + 1.0, point.y + 1) for point in batch]
