"""GPUs as nvidia-ml-py shows them: with the package, or a stand-in for it, or without."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from workers.gpus import Gpu, Gpus


class _Error(Exception):
    pass


class _NotFound(_Error):
    pass


def driver(**functions: Any) -> ModuleType:
    """A stand-in for the package: a host with two GPUs, the second of which says little."""
    module = ModuleType("pynvml")
    names = {0: "H200", 1: "H200 MIG"}

    def rates(handle: int) -> Any:
        if handle:
            raise _Error("not supported")
        return SimpleNamespace(gpu=40, memory=10)

    module.__dict__.update(
        {
            "NVMLError": _Error,
            "NVMLError_LibraryNotFound": _NotFound,
            "nvmlInit": lambda: None,
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(used=30, total=100, free=70),
            "nvmlDeviceGetUtilizationRates": rates,
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
            "nvmlDeviceGetName": names.__getitem__,
            **functions,
        }
    )
    return module


def fail(error: type[Exception]) -> Any:
    def function(*_: object) -> None:
        raise error

    return function


def test_each_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver())
    assert Gpus().look() == [
        Gpu("GPU-0", "H200", 30, 100, 0.4),
        Gpu("GPU-1", "H200 MIG", 30, 100, None),
    ]


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    gpus = Gpus()
    assert gpus.look() == gpus.look() == []


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver(nvmlInit=fail(_NotFound)))
    gpus = Gpus()
    assert gpus.look() == []
    monkeypatch.setitem(sys.modules, "pynvml", driver())
    assert gpus.look() == [], "one does not come by itself"


def test_a_driver_that_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver(nvmlInit=fail(_Error)))
    gpus = Gpus()
    assert gpus.look() == []
    working = driver()
    monkeypatch.setitem(sys.modules, "pynvml", working)
    assert len(gpus.look()) == 2
    monkeypatch.setattr(working, "nvmlDeviceGetCount", fail(_Error))
    assert gpus.look() == []
