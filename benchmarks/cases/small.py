"""Tiny requests: what the engine itself costs, over one stage and over three.

Every server parses a small JSON object, adds one to a number in each stage, and answers with
small JSON, in the form that is native to it. One worker a stage, batches of at most 32.
"""

from pathlib import Path

from benchmarks.cases.comparison import Comparison, Part
from benchmarks.peers.server import Exchange, Workload

FOLDER = Path(__file__).resolve().parent.parent / "plugins" / "small"
TENSOR = b'{"inputs": [{"name": "x", "shape": [1, 1], "datatype": "INT32", "data": [1]}]}'
REQUEST = b'{"x": 1}'
CLIENTS = (1, 16, 64, 256)


def workload(title: str, *, pipeline: str, chain: tuple[str, ...]) -> Workload:
    """The small workload over this chain. The answer to 1 is 1 + the number of stages."""
    answer = 1 + len(chain)
    model = pipeline if len(chain) > 1 else chain[0]
    return Workload(
        title=title,
        folder=FOLDER,
        pipeline=pipeline,
        chain=chain,
        exchanges={
            "millstream": Exchange(f"/pipelines/{pipeline}", REQUEST, f'{{"x":{answer}}}'),
            "mosec": Exchange("/inference", REQUEST, f'{{"x":{answer}}}'),
            "triton": Exchange(f"/v2/models/{model}/infer", TENSOR, f'"data":[{answer}]'),
        },
    )


ONE_STAGE = workload("1 stage", pipeline="one", chain=("add",))
THREE_STAGES = workload("3 stages", pipeline="three", chain=("first", "second", "third"))

CASE = Comparison(
    title="Tiny requests",
    note="A small JSON object in, one number plus one in each stage, small JSON out.",
    parts=(Part(ONE_STAGE, CLIENTS), Part(THREE_STAGES, CLIENTS)),
)
