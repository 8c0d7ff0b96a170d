"""Models that declare what they take and give, and how it may be asked for."""

from typing import Any

import numpy as np

from millstream import Classify, Regress, Reject, Tensor, Worker

DATATYPES = (
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "BF16", "FP32", "FP64", "BYTES",
)  # fmt: skip


def of_shape(*shape: int) -> dict[str, Tensor]:
    """A tensor of each datatype, and bytes that are no text."""
    names = {name: Tensor(name, shape) for name in DATATYPES}
    return {**names, "any_bytes": Tensor("BYTES", shape)}


class Echo(Worker):
    """What every echo does."""

    max_batch_size = 8

    def forward(self, batch: list[Any]) -> list[Any]:
        return batch


class Scalars(Echo):
    """No axis."""

    inputs = of_shape()
    outputs = inputs


class Vectors(Echo):
    """One value a row."""

    inputs = of_shape(-1)
    outputs = inputs


class Matrices(Echo):
    """A list a row."""

    inputs = of_shape(-1, -1)
    outputs = inputs


class Cubes(Echo):
    """A matrix a row, of two columns."""

    inputs = of_shape(-1, -1, 2)
    outputs = inputs


class Half(Worker):
    """What TensorFlow Serving's own example does. It declares just one tensor on each side."""

    inputs = {"x": Tensor("FP32", [-1])}  # noqa: RUF012
    outputs = {"y": Tensor("FP32", [-1])}  # noqa: RUF012

    def forward(self, batch: list[Any]) -> list[Any]:
        return [answer(item["x"]) for item in batch]


def answer(x: Any) -> Any:
    return Reject("negative", status=422) if np.any(x < 0) else x / 2 + 2


class Images(Worker):
    """One input of bytes; as outputs the bytes themselves, and their lengths all together."""

    inputs = {"image": Tensor("BYTES", [-1])}  # noqa: RUF012
    outputs = {  # noqa: RUF012
        "image_bytes": Tensor("BYTES", [-1]), "lengths": Tensor("INT64", [-1]),
        "total": Tensor("INT64", [-1]),
    }  # fmt: skip

    def forward(self, batch: list[Any]) -> list[Any]:
        return [self.answer(item["image"]) for item in batch]

    def answer(self, images: Any) -> Any:
        lengths = [len(image) for image in images]
        total = [sum(lengths)] if len(lengths) > 3 else lengths
        return {"image_bytes": images, "lengths": lengths, "total": total}


class Texts(Echo):
    """Text, under a name that promises as much."""

    inputs = {"text": Tensor("BYTES", [-1])}  # noqa: RUF012
    outputs = inputs


class Flowers(Worker):
    """Two classes, named by the model or always alike, and a value."""

    inputs = {"size": Tensor("FP32", [-1, 2]), "kind": Tensor("BYTES", [-1])}  # noqa: RUF012
    outputs = {  # noqa: RUF012
        "scores": Tensor("FP32", [-1, 2]), "names": Tensor("BYTES", [-1, 2]),
        "area": Tensor("FP64", [-1, 1]),
    }  # fmt: skip
    signatures = {  # noqa: RUF012
        "named": Classify("scores", labels="names"),
        "fixed": Classify("scores", labels=["rose", "tulip"]),
        "bare": Classify("scores"),
        "area": Regress("area"),
    }

    def forward(self, batch: list[Any]) -> list[Any]:
        return [self.answer(item["size"], item["kind"]) for item in batch]

    def answer(self, size: Any, kind: Any) -> Any:
        names = np.array([[each, each + b"?"] for each in kind], object).reshape(-1, 2)
        return {"scores": size / 2, "names": names, "area": size[:, :1] * size[:, 1:]}


class Undeclared(Echo):
    """Nothing is known of it."""
