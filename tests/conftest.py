"""How tests are shared between processes, and what is not theirs to fail for."""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from _pytest.pathlib import import_path
from hypothesis import HealthCheck, settings
from xdist.scheduler import (  # type: ignore[import-untyped]  # it ships no types
    LoadScopeScheduling,
)

PROCESSES = 5
"""For the whole suite, on two cores: tests wait for half of their time, and others work then. Of
those in tests/system, fault and rollout four processes left the cores idle for 29 % of the time,
and five for 7 %."""

LONG = (
    "tests/pages", "tests/fault", "tests/rollout", "tests/examples/served", "tests/oip",
    "tests/sim/test_chaos.py", "tests/system/test_shared_memory.py",
    "tests/integration/workers/test_models.py", "tests/integration/workers/test_supervisor.py",
    "tests/sim/test_faults.py", "tests/mosec", "tests/edges", "tests/ui",
    "tests/sim/test_overload.py", "tests/system/test_traffic.py", "tests/sim/test_versions.py",
    "tests/system/test_guard.py", "tests/system/test_new.py", "tests/chaos/test_run.py",
    "tests/system/test_commands.py", "tests/unit/millstream/bench/test_command.py",
)  # fmt: skip
"""Files and packages that take longest there, from 110 s to 10, in the order of their beginning."""

# Hundreds of processes are started, and each would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell has what it runs in the background ignore Ctrl-C, and all that is started there, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all tests are collected

# Many processes import numpy, whose threads would first of all keep both cores busy for 25 ms.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")

# What tests look for in logs, they look for as key=value.
os.environ["MILLSTREAM_LOG_FORMAT"] = "logfmt"

# A busy machine is no fault of the code: how long a test may take is said to pytest-timeout.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


@pytest.fixture(scope="session", autouse=True)
def _runtime_folder() -> Iterator[None]:
    """Where a broker is looked for that nobody names: nowhere near other processes' ones."""
    with (
        tempfile.TemporaryDirectory(prefix="mill-") as folder,
        pytest.MonkeyPatch.context() as environ,
    ):
        environ.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What came with the tests stays, and is large (torch): to have the collector walk it again and
    again took a sixth of the time of what runs in this process.
    To walk it once takes half a second.
    """
    gc.freeze()
    gc.enable()


# ------------------------------------------------------------------ pytest-xdist


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Each process first loads a part of the tests, so that the others find it compiled: in a new
    checkout, pytest takes as long for that as for all else before the first test.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is not None:
        root, number = session.config.rootpath, int(worker["workerid"].removeprefix("gw"))
        paths = sorted(
            path for arg in session.config.args for path in (root / arg).rglob("test_*.py")
        )
        for path in paths[number :: worker["workercount"]]:
            _load(path, root)
    yield


def _load(path: Path, root: Path) -> None:
    """As pytest does it. What goes wrong does so again, and is told, where it is collected."""
    try:
        import_path(path, mode="importlib", root=root, consider_namespace_packages=False)
    except (Exception, pytest.skip.Exception):
        for name, module in list(sys.modules.items()):
            if getattr(module, "__file__", None) == str(path):
                del sys.modules[name]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Processes of `-n auto`: one, with its output and debugger, where a part is asked for."""
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return PROCESSES if is_whole and not config.option.keyword else 0


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # its types are unknown
    """Gives out one file after the other, and a package as a whole: it has one deployment."""

    @cache  # noqa: B019  there is one, to the end
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.rpartition("/")[0]
        is_package = (self.config.rootpath / folder / "__init__.py").exists()
        return folder if is_package else file

    def _assign_work_unit(self, node: object) -> None:
        first = next((scope for scope in LONG if scope in self.workqueue), None)
        if first is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling:
    """What takes long first, then as they are collected: the unit tests, which take least, come
    last, so that all processes end at the same time.
    """
    gone = [scope for scope in LONG if not (config.rootpath / scope).exists()]
    assert not gone, f"LONG names what is not there: {gone}"
    config.option.loadscopereorder = False
    return Scheduling(config, log)
