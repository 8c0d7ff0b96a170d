"""Triton without a GPU: the server binary and the Python backend out of the pytriton wheel.

One stage is one model; several are an ensemble of them. A workload whose stages differ in what they
take and give has a configuration `triton_<stage>.pbtxt` for each. What an operator would tune by
hand stands in `triton-tuned_<stage>.pbtxt`.
"""

import contextlib
import os
import shutil
import string
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import load, processes
from benchmarks.peers import environment
from benchmarks.peers.server import Target, Unavailable, Workload

VERSION = "2.51.0"
# The Python backend of this wheel was built against numpy 1 and misreads the arrays of numpy 2.
REQUIREMENTS = ("nvidia-pytriton==0.7.0", "numpy==1.26.4")
READY_TIMEOUT_S = 60.0
# After overload it would go on for long with what nobody waits for, whatever it is told of that.
STOP_TIMEOUT_S = 2.0
SHARED_MEMORY = Path("/dev/shm")


class Triton:
    """Runs `tritonserver` on a model repository made from the workload's `triton_*` files."""

    def __init__(self, *, tuned: bool = False) -> None:
        self.name = "triton-tuned" if tuned else "triton"
        self.title = "Triton, tuned" if tuned else "Triton"

    def prepare(self) -> str:
        tree = _server_tree(_home())
        stub = Path(f"python_backend_stubs/3.{sys.version_info.minor}/triton_python_backend_stub")
        if not (tree / stub).exists():
            raise Unavailable(f"its wheel has no stub for Python 3.{sys.version_info.minor}")
        shutil.copy2(tree / stub, tree / "backends/python")
        return VERSION

    @contextlib.contextmanager
    def deploy(self, workload: Workload) -> Iterator[Target]:
        exchange = workload.exchanges[self.name]
        home = _home()
        port = processes.free_port()
        with (
            tempfile.TemporaryDirectory(prefix="triton-bench-") as name,
            _shared_memory_prefix() as prefix,
        ):
            folder = Path(name)
            script_file = load.write_request(folder, exchange.body, exchange.headers)
            _make_repository(folder / "models", workload, self.name)
            tree = _server_tree(home)
            command = [str(tree / "bin/tritonserver")]
            command += ["--model-repository", str(folder / "models")]
            command += ["--backend-directory", str(tree / "backends")]
            command += [f"--backend-config=python,shm-region-prefix-name={prefix}"]
            command += ["--http-address", "127.0.0.1", "--http-port", str(port)]
            command += ["--metrics-port", str(processes.free_port()), "--allow-grpc=false"]
            environ = _environ(home, workload.variables)
            with processes.running(
                "triton",
                command,
                folder=folder,
                environ=environ,
                stop_timeout_s=STOP_TIMEOUT_S,
            ) as process:
                base_url = f"http://127.0.0.1:{port}"
                processes.wait_until(
                    lambda: exchange.holds(base_url), [process], timeout_s=READY_TIMEOUT_S
                )
                yield Target(
                    base_url + exchange.path, exchange, script_file, {"server": process.pid}
                )


def _home() -> Path:
    # The wheel's own Python package, which needs more, is not used.
    return environment.ensure("triton", REQUIREMENTS, dependencies=False)


def _server_tree(home: Path) -> Path:
    minor = sys.version_info.minor
    return home / f"lib/python3.{minor}/site-packages/pytriton/tritonserver"


def _environ(home: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """The stub embeds Python: it finds libpython by one path and the environment by the other."""
    return environment.variables(
        **variables,
        PATH=f"{home / 'bin'}:{os.environ.get('PATH', os.defpath)}",
        LD_LIBRARY_PATH=str(sysconfig.get_config_var("LIBDIR")),
    )


def _make_repository(models: Path, workload: Workload, server: str) -> None:
    for stage in workload.chain:
        names = (f"{server}_{stage}.pbtxt", f"triton_{stage}.pbtxt", "triton_stage.pbtxt")
        template = next(
            file for name in names if (file := workload.folder / name).exists()
        ).read_text()
        stage_config = string.Template(template).substitute(workload.variables, name=stage)
        (models / stage / "1").mkdir(parents=True)
        (models / stage / "config.pbtxt").write_text(stage_config)
        shutil.copy(workload.folder / "triton_model.py", models / stage / "1/model.py")
        # Its Python does not look at PYTHONPATH, but beside the model.
        (models / stage / "1/benchmarks").symlink_to(environment.PLUGINS_PATH / "benchmarks")
    if len(workload.chain) > 1:
        ensemble_config = string.Template((workload.folder / "triton_ensemble.pbtxt").read_text())
        ensemble = models / workload.pipeline
        (ensemble / "1").mkdir(parents=True)
        (ensemble / "config.pbtxt").write_text(ensemble_config.substitute(name=workload.pipeline))


@contextlib.contextmanager
def _shared_memory_prefix() -> Iterator[str]:
    """A prefix for Triton's segments of shared memory; what it leaves behind is removed."""
    prefix = f"millstream_bench_{os.getpid()}_"
    try:
        yield prefix
    finally:
        for segment in SHARED_MEMORY.glob(f"{prefix}*"):
            segment.unlink(missing_ok=True)
