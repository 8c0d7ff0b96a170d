"""Large bodies into one stage: what bringing them from the client to the plug-in costs.

The stage tells a body's length and sums up its last bytes. One worker, batches of at most 32.
"""

import json
from pathlib import Path

from benchmarks.cases.comparison import Comparison, Part
from benchmarks.peers.server import Exchange, Workload
from benchmarks.plugins.uploads import functions

FOLDER = Path(__file__).resolve().parent.parent / "plugins" / "uploads"
IMAGE = {"Content-Type": "image/png"}
CLIENTS = (1, 4, 16)
MEGABYTE = 1_000_000


def _workload(title: str, size_bytes: int) -> Workload:
    body = bytes(range(250)) * (size_bytes // 250)
    size, tail = functions.look(body)
    answer = f'{{"bytes":{size},"tail":{tail}}}'
    return Workload(
        title=title,
        folder=FOLDER,
        pipeline="uploads",
        chain=("look",),
        exchanges={
            "millstream": Exchange("/pipelines/uploads", body, answer, IMAGE),
            "mosec": Exchange("/inference", body, answer, IMAGE),
            "triton": _binary(body, f'"data":[{size},{tail}]'),
        },
    )


def _binary(body: bytes, answer: str) -> Exchange:
    """A request in Triton's binary form: a JSON head that describes the tensor, then its bytes."""
    tensor = {
        "name": "body",
        "shape": [1, len(body)],
        "datatype": "UINT8",
        "parameters": {"binary_data_size": len(body)},
    }
    head = json.dumps({"inputs": [tensor]}).encode()
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(head)),
    }
    return Exchange("/v2/models/look/infer", head + body, answer, headers)


CASE = Comparison(
    title="Uploads",
    note="An opaque body in (image/png, for Triton a binary tensor), one stage that looks at its "
    "length and its end, small JSON out.",
    parts=(
        Part(_workload("1 MB", MEGABYTE), CLIENTS),
        Part(
            _workload("10 MB", 10 * MEGABYTE),
            CLIENTS,
            floors={clients: {"mosec": 1.5} for clients in CLIENTS},
        ),
    ),
)
