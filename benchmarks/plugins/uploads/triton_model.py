"""The Triton model for the workload with uploads.

Run by Triton's Python backend, which also provides `triton_python_backend_utils`.
"""

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # Triton's own

from benchmarks.plugins.uploads import functions


class TritonPythonModel:
    """One instance serves the stage."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request of the batch; the body is UINT8 [1, n], the answer INT64 [1, 2]."""
        responses = []
        for request in requests:
            body = pb_utils.get_input_tensor_by_name(request, "body").as_numpy()[0]
            looked = np.array([functions.look(body)], np.int64)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("looked", looked)]))
        return responses
