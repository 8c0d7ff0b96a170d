"""Millstream from one file: `python served.py`, which starts all roles as its children."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import load, processes
from benchmarks.peers import environment
from benchmarks.peers.millstream import READY_TIMEOUT_S, Millstream
from benchmarks.peers.server import Target, Workload


class ServedMillstream(Millstream):
    """The same engine through `serve`; for workloads with a `served.py` in their folder."""

    title = "Millstream through serve"

    @contextlib.contextmanager
    def deploy(self, workload: Workload) -> Iterator[Target]:
        exchange = workload.exchanges[self.name]
        port = processes.free_port()
        script = str(workload.folder / "served.py")
        with (
            tempfile.TemporaryDirectory(prefix="millstream-bench-") as name,
            processes.running(
                "served",
                [sys.executable, script, workload.pipeline, *workload.chain],
                folder=Path(name),
                environ=environment.variables(MILLSTREAM_PORT=str(port), **workload.variables),
            ) as served,
        ):
            script_file = load.write_request(Path(name), exchange.body, exchange.headers)
            base_url = f"http://127.0.0.1:{port}"
            processes.wait_until(
                lambda: (
                    processes.fetch(f"{base_url}/readyz")[0] == 200 and exchange.holds(base_url)
                ),
                [served],
                timeout_s=READY_TIMEOUT_S,
            )
            yield Target(base_url + exchange.path, exchange, script_file, {"served": served.pid})
