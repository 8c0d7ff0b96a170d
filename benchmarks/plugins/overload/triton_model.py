"""The Triton model under overload: `y = x + 1`, and in the stage `infer` the time of a batch.

Run by Triton's Python backend, which also provides `triton_python_backend_utils`.
"""

from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # Triton's own

from benchmarks.plugins.overload import functions

SLOW_STAGE = "infer"


class TritonPythonModel:
    """One instance serves one stage."""

    def initialize(self, args: dict[str, str]) -> None:
        """Become the stage of that name."""
        self._is_slow = args["model_name"] == SLOW_STAGE

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request of the batch; both tensors are INT32 [1, 1]."""
        if self._is_slow:
            functions.infer(len(requests))
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", x + 1)]))
        return responses
