"""The Triton model for the workload with arrays: which of the stages it is, its name says.

Run by Triton's Python backend, which also provides `triton_python_backend_utils`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # Triton's own

from benchmarks.plugins.arrays import functions


def _make(request: Any) -> Any:
    seed, side = pb_utils.get_input_tensor_by_name(request, "item").as_numpy()[0]
    return pb_utils.Tensor("array", functions.make(int(seed), int(side))[np.newaxis])


def _transform(request: Any) -> Any:
    array = pb_utils.get_input_tensor_by_name(request, "array").as_numpy()
    return pb_utils.Tensor("transformed", functions.transform(array))


def _total(request: Any) -> Any:
    array = pb_utils.get_input_tensor_by_name(request, "array").as_numpy()
    return pb_utils.Tensor("sum", np.array([[functions.total(array)]], np.float32))


STAGES: dict[str, Callable[[Any], Any]] = {
    "make": _make,
    "transform": _transform,
    "total": _total,
}


class TritonPythonModel:
    """One instance serves one stage."""

    def initialize(self, args: dict[str, str]) -> None:
        """Become the stage of that name."""
        self._run = STAGES[args["model_name"]]

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request of the batch; every tensor has a first axis of 1."""
        return [pb_utils.InferenceResponse([self._run(request)]) for request in requests]
