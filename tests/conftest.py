"""How tests are shared between processes, and what is not theirs to fail for."""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import (  # type: ignore[import-untyped]  # it ships no types
    LoadScopeScheduling,
)

PROCESSES = 4
"""For the whole suite, on two cores: tests wait for half of their time, and others work then."""

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
    """
    gc.collect()
    gc.freeze()
    gc.enable()


# ------------------------------------------------------------------ pytest-xdist


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Processes of `-n auto`: one, with its output and debugger, where a part is asked for."""
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return PROCESSES if is_whole and not config.option.keyword else 0


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # its types are unknown
    """Gives out one file after the other, and a package as a whole: it has one deployment."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.rpartition("/")[0]
        is_package = (self.config.rootpath / folder / "__init__.py").exists()
        return folder if is_package else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling:
    """In the order in which they are collected: what takes long comes before the unit tests."""
    config.option.loadscopereorder = False
    return Scheduling(config, log)
