"""Triton's perf_analyzer, unmodified: what it asks for, and, where it runs, a sweep of its own.

Its binary comes with the packages `perf-analyzer`, and `tritonclient` up to 2.60; PERF_ANALYZER
names one that is not on the path.
"""

import csv
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from tests.system.deployment import Deployment

pytestmark = pytest.mark.system

BINARY = os.environ.get("PERF_ANALYZER") or shutil.which("perf_analyzer") or ""


def _why_not() -> str:
    """Why the binary does not run here; "" where it does."""
    if not BINARY:
        return "perf_analyzer is not installed"
    done = subprocess.run(
        [BINARY, "--version"], capture_output=True, text=True, timeout=20, check=False
    )
    return "" if done.returncode == 0 else f"perf_analyzer does not run: {done.stderr[:200]}"


@pytest.fixture(params=["http", "grpc"])
def spoken(
    request: pytest.FixtureRequest, mill: Deployment, grpc_address: str
) -> Iterator[tuple[str, str, Any]]:
    """A protocol, where it is spoken, and the module of its client."""
    if request.param == "http":
        yield "http", f"127.0.0.1:{mill.port}", triton_http
    else:
        yield "grpc", grpc_address, triton_grpc


@pytest.mark.timeout(120)
def test_a_sweep(spoken: tuple[str, str, Any], tmp_path: Path) -> None:
    if why := _why_not():
        pytest.skip(why)
    protocol, address, _ = spoken
    table = tmp_path / "sweep.csv"
    done = subprocess.run(
        [
            BINARY, "-m", "pairs", "-i", protocol, "-u", address, "--shape", "x:1,2",
            "--concurrency-range", "1:4", "--measurement-interval", "200",
            "--stability-percentage", "500", "--verbose-csv", "-f", str(table),
        ],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stdout.lower(), done.stdout
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert sorted(int(row["Concurrency"]) for row in rows) == [1, 2, 3, 4]
    assert all(float(row["Inferences/Second"]) > 0 for row in rows)


def test_what_it_asks_for(spoken: tuple[str, str, Any]) -> None:
    """The same calls in the same order, and what it makes of the answers."""
    protocol, address, triton = spoken
    with triton.InferenceServerClient(address) as server:

        def ask(call: Any, *arguments: Any) -> Any:
            return call(*arguments, as_json=True) if protocol == "grpc" else call(*arguments)

        metadata = ask(server.get_model_metadata, "pairs")
        config = ask(server.get_model_config, "pairs")
        config = config.get("config", config)
        assert int(config.get("max_batch_size", 0)) == 0
        assert config["input"][0]["name"] == metadata["inputs"][0]["name"] == "x"
        assert config["output"][0]["name"] == metadata["outputs"][0]["name"]
        assert [int(length) for length in metadata["inputs"][0]["shape"]] == [-1, 2]
        assert "statistics" in ask(server.get_server_metadata)["extensions"]
        before = _figures(ask(server.get_inference_statistics, "pairs"))
        tensor = triton.InferInput("x", [1, 2], "FP32")
        tensor.set_data_from_numpy(np.zeros((1, 2), np.float32))
        for _ in range(4):
            server.infer("pairs", [tensor])
        after = _figures(ask(server.get_inference_statistics, "pairs"))
    grown = {name: after[name] - before[name] for name in before}
    assert grown.pop("cache_hit") == grown.pop("cache_miss") == grown.pop("fail") == 0
    assert set(grown.values()) == {4}


def _figures(stats: Any) -> dict[str, int]:
    """The counts, each of which must be there, of the one version, which must be a number."""
    (model,) = stats["model_stats"]
    assert int(model["version"]) == 1
    names = ("queue", "compute_input", "compute_infer", "compute_output")
    return {
        name: int(model["inference_stats"][name].get("count", 0))
        for name in ("success", "fail", *names, "cache_hit", "cache_miss")
    }
