"""Tiny requests: what the engine itself costs, over one stage and over three.

Every server parses a small JSON object, adds one to a number in each stage, and answers with
small JSON, in the form that is native to it. One worker a stage, batches of at most 32.
"""

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks import rounds
from benchmarks.peers.server import Exchange, Server, Target, Workload
from benchmarks.processes import StartFailed

FOLDER = Path(__file__).resolve().parent.parent / "plugins" / "small"
TENSOR = '{"inputs": [{"name": "x", "shape": [1, 1], "datatype": "INT32", "data": [1]}]}'


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
            "millstream": Exchange(f"/pipelines/{pipeline}", '{"x": 1}', f'{{"x":{answer}}}'),
            "mosec": Exchange("/inference", '{"x": 1}', f'{{"x":{answer}}}'),
            "triton": Exchange(f"/v2/models/{model}/infer", TENSOR, f'"data":[{answer}]'),
        },
    )


ONE_STAGE = workload("1 stage", pipeline="one", chain=("add",))
THREE_STAGES = workload("3 stages", pipeline="three", chain=("first", "second", "third"))


def run(
    servers: Mapping[str, Server], settings: rounds.Settings
) -> tuple[list[rounds.Row], dict[str, str]]:
    """Measure both workloads: the rows, and what kept servers out, by server."""
    rows: list[rounds.Row] = []
    failures: dict[str, str] = {}
    for each in (ONE_STAGE, THREE_STAGES):
        with contextlib.ExitStack() as stack:
            targets: dict[str, Target] = {}
            for name, server in servers.items():
                print(f"{each.title}: starting {server.title} …", file=sys.stderr, flush=True)
                try:
                    targets[name] = stack.enter_context(server.deploy(each))
                except StartFailed as error:
                    failures.setdefault(name, f"{each.title}: {error}")
            if targets:
                print(f"{each.title}: measuring …", file=sys.stderr, flush=True)
                rounds.warm_up(targets)
                rows += rounds.measure(each.title, targets, settings)
    return rows, failures
