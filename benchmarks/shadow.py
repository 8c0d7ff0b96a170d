"""What a shadow costs those who see nothing of it: `python -m benchmarks.shadow`.

Three stages, of which the slow one has a version 2, and a version 3 that takes ten times as long.
All requests are copied for it, or none, in turns, under the same Poisson arrivals; the ratio is of
the medians of the 99th percentiles.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks import processes
from benchmarks.peers import environment

PLUGINS = Path(__file__).parent / "plugins" / "overload"
PLUGIN = PLUGINS / "millstream_plugin.py"
PIPELINE = "three"
TIMES_MS = {"2": ("5", "0.25"), "3": ("50", "2.5")}
"""t(b) = a + c·b of each version."""

Order: TypeAlias = Callable[..., dict[str, Any]]
"""A command of ours on that deployment, and the document that it shows."""


def main() -> int:
    """Measure and print, a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=500.0, help="requests a second (500)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run (5)")
    parser.add_argument("--rounds", type=int, default=4, help="with and without (4)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as name:
        return _measure(Path(name), options)


def _measure(folder: Path, options: argparse.Namespace) -> int:
    port = processes.free_port()
    command = str(Path(sys.executable).with_name("millstream"))
    address = f"ipc://{folder}/broker"

    def order(*arguments: str) -> dict[str, Any]:
        argv = [command, *arguments, "--json", "--broker", address]
        document: dict[str, Any] = json.loads(subprocess.check_output(argv))
        return document

    with contextlib.ExitStack() as stack:
        started = []

        def start(role: str, *arguments: str, **variables: str) -> None:
            argv = [command, *arguments, "--broker", address]
            environ = environment.variables(**variables)
            running = processes.running(role, argv, folder=folder, environ=environ)
            started.append(stack.enter_context(running))

        start("broker", "broker", str(PLUGINS / "three.toml"), "--state", "none")
        for stage in ("preprocess", "postprocess"):
            a_ms, c_ms = TIMES_MS["2"]
            start(
                stage, "worker", f"{PLUGIN}:Quick", "--stage", stage,
                BENCHMARK_A_MS=a_ms, BENCHMARK_C_MS=c_ms,
            )  # fmt: skip
        for version, (a_ms, c_ms) in TIMES_MS.items():
            start(
                f"infer{version}", "worker", f"{PLUGIN}:Slow", "--stage", "infer",
                "--version", version, BENCHMARK_A_MS=a_ms, BENCHMARK_C_MS=c_ms,
            )  # fmt: skip
        start("gateway", "gateway", "--port", str(port))
        base_url = f"http://127.0.0.1:{port}"

        def are_ready() -> bool:
            if processes.fetch(f"{base_url}/readyz")[0] != 200:
                return False
            versions = order("traffic", PIPELINE)["versions"]
            return [each["state"] for each in versions] == ["ready", "ready"]

        processes.wait_until(are_ready, started, timeout_s=30.0)
        order("traffic", PIPELINE, "2=1")
        return _rounds(folder, f"{base_url}/pipelines/{PIPELINE}", order, options)


def _rounds(folder: Path, url: str, order: Order, options: argparse.Namespace) -> int:
    body = folder / "body"
    body.write_text('{"x": 1}')
    p99_ms: dict[str, list[float]] = {"": [], "3": []}
    for number in range(options.rounds):
        for shadow in ("", "3") if number % 2 else ("3", ""):
            order("traffic", PIPELINE, "--shadow", shadow or "none")
            figures = _load(url, body, options, seed=number)
            p99_ms[shadow].append(figures["success_p99_ms"])
            shown = {key: figures[key] for key in ("sent", "in_time", "success_p50_ms", "fault")}
            print(f"shadow {shadow or 'off'}: p99 {figures['success_p99_ms']:.2f} ms", shown)
    medians = {shadow: statistics.median(found) for shadow, found in p99_ms.items()}
    print(f"p99 without {medians['']:.2f} ms, with {medians['3']:.2f} ms:"
          f" {medians['3'] / medians['']:.2f} times")  # fmt: skip
    print(json.dumps(order("compare", PIPELINE, "2", "3")["agreement"] | {"samples": []}))
    return 0


def _load(url: str, body: Path, options: argparse.Namespace, *, seed: int) -> dict[str, Any]:
    argv = [
        sys.executable, "-m", "benchmarks.poisson", "--url", url, "--rate", str(options.rate),
        "--seconds", str(options.seconds), "--deadline-ms", "1000", "--seed", str(seed),
        "--body", str(body), "--header", "Content-Type: application/json",
    ]  # fmt: skip
    figures: dict[str, Any] = json.loads(subprocess.check_output(argv))
    return figures


if __name__ == "__main__":
    sys.exit(main())
