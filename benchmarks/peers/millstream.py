"""Millstream itself, as it is shipped: broker, one worker for each stage, one gateway."""

import contextlib
import importlib.metadata
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import load, processes
from benchmarks.peers import environment
from benchmarks.peers.server import Target, Unavailable, Workload

READY_TIMEOUT_S = 30.0


class Millstream:
    """Runs the `millstream` command of the environment that the benchmark runs in."""

    name = "millstream"
    title = "Millstream"

    def __init__(self) -> None:
        self._command = Path(sys.executable).with_name("millstream")

    def prepare(self) -> str:
        if not self._command.exists():
            raise Unavailable(f"there is no command {self._command.name} beside {sys.executable}")
        return importlib.metadata.version("millstream")

    @contextlib.contextmanager
    def deploy(self, workload: Workload) -> Iterator[Target]:
        exchange = workload.exchanges[self.name]
        with (
            tempfile.TemporaryDirectory(prefix="millstream-bench-") as name,
            contextlib.ExitStack() as stack,
        ):
            folder = Path(name)
            script_file = load.write_request(folder, exchange.body, exchange.headers)
            port = processes.free_port()
            started = [
                stack.enter_context(
                    processes.running(
                        role,
                        [str(self._command), *arguments, "--broker", f"ipc://{folder}/broker"],
                        folder=folder,
                        environ=environment.variables(**workload.variables),
                    )
                )
                for role, arguments in _roles(workload, port).items()
            ]
            base_url = f"http://127.0.0.1:{port}"
            processes.wait_until(
                lambda: (
                    processes.fetch(f"{base_url}/readyz")[0] == 200 and exchange.holds(base_url)
                ),
                started,
                timeout_s=READY_TIMEOUT_S,
            )
            pids = {process.name: process.pid for process in started}
            yield Target(base_url + exchange.path, exchange, script_file, pids)


def _roles(workload: Workload, port: int) -> dict[str, list[str]]:
    """The arguments of each process; they are stopped in the opposite order, the broker last."""
    file = workload.folder / (workload.file or f"{workload.pipeline}.toml")
    return {
        "broker": ["broker", str(file), "--state", "none", *workload.broker_options],
        **{
            f"worker-{stage}": ["worker", _plugin(workload, stage), "--stage", stage]
            for stage in workload.chain
        },
        "gateway": ["gateway", "--port", str(port), *workload.gateway_options],
    }


def _plugin(workload: Workload, stage: str) -> str:
    script = str(workload.folder / workload.scripts.get(stage, "millstream_plugin.py"))
    return f"{script}:{workload.classes[stage]}" if stage in workload.classes else script
