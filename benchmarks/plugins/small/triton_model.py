"""The Triton model for the small workload: `y = x + 1`.

Run by Triton's Python backend, which also provides `triton_python_backend_utils`.
"""

from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # Triton's own


class TritonPythonModel:
    """One instance serves one stage."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request of the batch; both tensors are INT32 [1, 1]."""
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", x + 1)]))
        return responses
