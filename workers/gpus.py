"""What the driver says of this host's GPUs, through nvidia-ml-py, if that is installed.

All GPUs that it shows to this process: which of them are its workers' own, CUDA_VISIBLE_DEVICES
says in an order that need not be the driver's.
"""

import importlib
from typing import Any, NamedTuple


class Gpu(NamedTuple):
    """One GPU at one moment."""

    uuid: str
    name: str
    used_bytes: int
    total_bytes: int
    utilization: float | None
    """0 to 1; None where the driver does not say, as for parts of a GPU."""


class Gpus:
    """Asks the driver. Without one, or without the package, there are none."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._is_absent = False

    def look(self) -> list[Gpu]:
        """How each of them is now."""
        nvml = self._begin()
        if nvml is None:
            return []
        try:
            handles = [
                nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())
            ]
            return [_look(nvml, handle) for handle in handles]
        except nvml.NVMLError:  # the driver was unloaded, or a GPU fell off its bus
            self._nvml = None
            return []

    def _begin(self) -> Any:
        if self._nvml is not None or self._is_absent:
            return self._nvml
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            self._is_absent = True
            return None
        try:
            nvml.nvmlInit()
        except nvml.NVMLError_LibraryNotFound:
            self._is_absent = True
        except nvml.NVMLError:  # it may come
            return None
        else:
            self._nvml = nvml
        return self._nvml


def _look(nvml: Any, handle: Any) -> Gpu:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    try:
        utilization = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100.0
    except nvml.NVMLError:
        utilization = None
    return Gpu(
        nvml.nvmlDeviceGetUUID(handle),
        nvml.nvmlDeviceGetName(handle),
        memory.used,
        memory.total,
        utilization,
    )
