"""Results to answers: predictions in rows, outputs in columns, or classes and values. Pure.

They raise BadRequest where an answer cannot be said in this form. Floats that are none of JSON's
are written as TensorFlow Serving does: NaN, Infinity, -Infinity.
"""

import math
from collections.abc import Sequence
from math import prod
from typing import Any

from broker.payload.datatypes import FLOATS
from broker.payload.nested import nest, split_elements, unpack_elements
from broker.payload.signature import Method
from broker.payload.tensor_bodies import TensorPart
from gateway.dialect import BadRequest
from gateway.tfs import base64_objects, loose_json

MAX_EMPTY_LISTS = 1 << 20
"""In an answer: a shape such as [1000000000, 0] is of no bytes, and would be of as many lists."""


class _Values:
    """Outputs as lists, and whether all their numbers are finite."""

    def __init__(self, parts: Sequence[TensorPart]) -> None:
        self.is_finite = True
        self.by_name = {part.name: self._nested(part) for part in parts}

    def _nested(self, part: TensorPart) -> Any:
        data = memoryview(part.data or b"")
        if not part.size_bytes and prod(part.shape[:-1]) > MAX_EMPTY_LISTS:
            raise BadRequest(f"output {part.name!r} is of {part.shape}, too many empty lists")
        if part.datatype == "BYTES":
            return nest(_texts(part.name, data), part.shape)
        elements = unpack_elements(data, part.datatype)
        # The sum of very large ones may be infinite as well: that costs time, and nothing else.
        if part.datatype in FLOATS and not math.isfinite(sum(elements)):
            self.is_finite = False
        return nest(elements, part.shape)


def write_columns(parts: Sequence[TensorPart]) -> bytes:
    """`outputs`: an object by name, or the one output alone."""
    values = _Values(parts)
    outputs: Any = values.by_name
    if len(outputs) == 1:
        (outputs,) = outputs.values()
    return loose_json.write({"outputs": outputs}, is_finite=values.is_finite)


def write_rows(parts: Sequence[TensorPart]) -> bytes:
    """`predictions`: one for each row, an object by name, or the one output's value alone."""
    for part in parts:
        if not part.shape:
            raise BadRequest(f"output {part.name!r} is one value for all: ask for it by `inputs`")
    lengths = {part.name: part.shape[0] for part in parts}
    if len(set(lengths.values())) > 1:
        raise BadRequest(f"the outputs are of different lengths, {lengths}: ask by `inputs`")
    values = _Values(parts)
    columns = values.by_name
    if len(columns) == 1:
        (predictions,) = columns.values()
    else:
        rows = zip(*columns.values(), strict=True)
        predictions = [dict(zip(columns, row, strict=True)) for row in rows]
    return loose_json.write({"predictions": predictions}, is_finite=values.is_finite)


def write_classes(method: Method, parts: Sequence[TensorPart]) -> bytes:
    """`results` of a classification: for each example its classes, as label and score."""
    values = _Values([part for part in parts if part.name in (method.values, method.classes)])
    scores = values.by_name[method.values]
    if method.classes:
        labels = values.by_name[method.classes]
    else:
        labels = [method.labels or [""] * len(row) for row in scores]
    try:
        results = [
            list(zip(names, row, strict=True)) for names, row in zip(labels, scores, strict=True)
        ]
    except ValueError:
        raise BadRequest(f"output {method.values!r} has not as many scores as labels") from None
    return loose_json.write({"results": results}, is_finite=values.is_finite)


def write_values(method: Method, parts: Sequence[TensorPart]) -> bytes:
    """`results` of a regression: one number for each example."""
    (part,) = [part for part in parts if part.name == method.values]
    values = _Values([TensorPart(part.name, part.datatype, part.shape[:1], part.data)])
    results = values.by_name[part.name]
    return loose_json.write({"results": list(map(float, results))}, is_finite=values.is_finite)


def _texts(name: str, data: memoryview) -> list[Any]:
    elements = split_elements(data)
    if name.endswith("_bytes"):
        return [base64_objects.encode(element) for element in elements]
    try:
        return [str(element, "utf-8") for element in elements]
    except UnicodeDecodeError:
        raise BadRequest(
            f"output {name!r} holds bytes that are no UTF-8: its name would have to end in _bytes"
        ) from None
