"""MOSEC, in a virtual environment of its own."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import load, processes
from benchmarks.peers import environment
from benchmarks.peers.server import Target, Workload

VERSION = "0.9.8"
REQUIREMENTS = (f"mosec=={VERSION}",)
READY_TIMEOUT_S = 30.0


class Mosec:
    """Runs the workload's `mosec_service.py`."""

    name = "mosec"
    title = "MOSEC"

    def prepare(self) -> str:
        environment.ensure(self.name, REQUIREMENTS)
        return VERSION

    @contextlib.contextmanager
    def deploy(self, workload: Workload) -> Iterator[Target]:
        exchange = workload.exchanges[self.name]
        python = environment.ensure(self.name, REQUIREMENTS) / "bin/python"
        port = processes.free_port()
        with tempfile.TemporaryDirectory(prefix="mosec-bench-") as name:
            folder = Path(name)
            script_file = folder / "request.lua"
            script_file.write_text(load.script(exchange.body))
            command = [str(python), str(workload.folder / "mosec_service.py")]
            command += ["--address", "127.0.0.1", "--port", str(port)]
            command += ["--path", str(folder / "sockets")]
            environ = environment.variables(BENCHMARK_STAGES=str(len(workload.chain)))
            with processes.running("mosec", command, folder=folder, environ=environ) as process:
                base_url = f"http://127.0.0.1:{port}"
                processes.wait_until(
                    lambda: exchange.holds(base_url), [process], timeout_s=READY_TIMEOUT_S
                )
                yield Target(base_url + exchange.path, script_file, {"server": process.pid})
