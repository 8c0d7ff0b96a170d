"""MOSEC, in a virtual environment of its own.

What its stages send each other is pickled, as it is by default, or written by numbin, which takes
arrays alone.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from benchmarks import load, processes
from benchmarks.peers import environment
from benchmarks.peers.server import Target, Workload

VERSION = "0.9.8"
REQUIREMENTS = (f"mosec=={VERSION}", "numbin==0.5.1", "numpy==2.4.6")
ENVIRONMENT = "mosec"
READY_TIMEOUT_S = 30.0


class Mosec:
    """Runs the workload's `mosec_service.py`, which `BENCHMARK_CODEC` tells the codec."""

    def __init__(self, codec: Literal["pickle", "numbin"] = "pickle") -> None:
        self._codec = codec
        self.name = "mosec" if codec == "pickle" else f"mosec-{codec}"
        self.title = "MOSEC" if codec == "pickle" else f"MOSEC with {codec}"

    def prepare(self) -> str:
        environment.ensure(ENVIRONMENT, REQUIREMENTS)
        return VERSION

    @contextlib.contextmanager
    def deploy(self, workload: Workload) -> Iterator[Target]:
        exchange = workload.exchanges[self.name]
        python = environment.ensure(ENVIRONMENT, REQUIREMENTS) / "bin/python"
        port = processes.free_port()
        with tempfile.TemporaryDirectory(prefix="mosec-bench-") as name:
            folder = Path(name)
            script_file = load.write_request(folder, exchange.body, exchange.headers)
            command = [str(python), str(workload.folder / "mosec_service.py")]
            command += ["--address", "127.0.0.1", "--port", str(port)]
            command += ["--path", str(folder / "sockets")]
            environ = environment.variables(
                **workload.variables,
                BENCHMARK_STAGES=str(len(workload.chain)),
                BENCHMARK_CODEC=self._codec,
            )
            with processes.running("mosec", command, folder=folder, environ=environ) as process:
                base_url = f"http://127.0.0.1:{port}"
                processes.wait_until(
                    lambda: exchange.holds(base_url), [process], timeout_s=READY_TIMEOUT_S
                )
                yield Target(
                    base_url + exchange.path, exchange, script_file, {"server": process.pid}
                )
