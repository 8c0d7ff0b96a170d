"""Large arrays between three stages, out of tiny requests: what carrying them costs.

The first stage makes a float32 array, the second makes another of it, the third sums that up; all
servers call the same three functions. One worker a stage, batches of at most 32.
"""

import json
from pathlib import Path

from benchmarks.cases.bare import Bare
from benchmarks.cases.comparison import Comparison, Part
from benchmarks.peers.server import Exchange, Workload
from benchmarks.plugins.arrays import functions

FOLDER = Path(__file__).resolve().parent.parent / "plugins" / "arrays"
CLASSES = {"make": "Make", "transform": "Transform", "total": "Total"}
MAX_BATCH_SIZE = 32
SEED = 1
BARE = "bare"


def _workload(title: str, side: int) -> Workload:
    item = json.dumps({"seed": SEED, "side": side}).encode()
    tensor = {"name": "item", "shape": [1, 2], "datatype": "INT32", "data": [SEED, side]}
    total = functions.run([(SEED, side)])[0]
    answer = f'{{"sum":{total}}}'
    return Workload(
        title=title,
        folder=FOLDER,
        pipeline="arrays",
        chain=tuple(CLASSES),
        classes=CLASSES,
        exchanges={
            "millstream": Exchange("/pipelines/arrays", item, answer),
            "mosec": Exchange("/inference", item, answer),
            "mosec-numbin": Exchange("/inference", item, answer),
            "triton": Exchange(
                "/v2/models/arrays/infer",
                json.dumps({"inputs": [tensor]}).encode(),
                f'"data":[{total}]',
            ),
        },
    )


def _bare(side: int) -> Bare:
    module = "benchmarks.plugins.arrays.bare"
    return Bare(module, str(side), max_batch_size=MAX_BATCH_SIZE)


def _floors(mosec: float, triton: float) -> dict[str, float]:
    """MOSEC's better codec is the one with the lower ratio, so the floor is that of both."""
    return {"mosec": mosec, "mosec-numbin": mosec, "triton": triton}


CASE = Comparison(
    title="Arrays between stages",
    note="A number in, three stages with a float32 array between each two (3×224×224: 602 KB; "
    "3×707×707: 6 MB), made, doubled and summed up item by item, small JSON out; 6 MB with twice "
    "the time. Bare: the same three functions alone, on as large batches, in a process that keeps "
    "its memory; the times are those of a batch.",
    parts=(
        Part(
            _workload("602 KB", side=224),
            clients=(1, 16, 64),
            floors={1: _floors(4, 1.1), 16: _floors(6, 2), 64: _floors(10, 3.5)},
            beside={BARE: _bare(224)},
        ),
        Part(
            _workload("6 MB", side=707),
            clients=(1, 16),
            floors={16: _floors(8, 2)},
            # Some servers answer a batch a second.
            times=2,
            beside={BARE: _bare(707)},
        ),
    ),
    beside={BARE: "bare"},
    picture="arrays.svg",
)
