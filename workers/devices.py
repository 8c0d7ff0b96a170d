"""Which device each worker process gets, decided without importing torch or touching CUDA."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

_DRIVER_FILES = (
    "dev/nvidiactl",  # servers and containers
    "dev/nvhost-gpu",  # Jetson
    "usr/lib/wsl/lib/libcuda.so.1",  # WSL
)


class DeviceError(Exception):
    """The devices asked for are not there; the message is one line for the person who asked."""


class Device(Struct, frozen=True):
    """One process's device: its name in that process, and CUDA_VISIBLE_DEVICES (None: as it is)."""

    name: str
    visible: str | None = None


def inherited_devices(environ: Mapping[str, str], root: Path = Path("/")) -> list[str]:
    """What CUDA would let this process see: numbers, UUIDs or MIG names, in CUDA's order.

    [] where no driver is there, or where all is hidden. `root` is where to look for the driver.
    """
    if not any((root / file).exists() for file in _DRIVER_FILES):
        return []
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        nodes = [node for node in os.listdir(root / "dev") if re.fullmatch("nvidia[0-9]+", node)]
        # Drivers without such nodes (WSL, Jetson) have one device to speak of.
        return [str(number) for number in range(len(nodes) or 1)]
    visible = []
    for entry in listed.split(","):
        name = entry.strip()
        if not name or name.startswith("-"):  # CUDA itself ignores it and all behind it
            break
        visible.append(name)
    return visible


def assign(asked: str, processes: int, inherited: list[str]) -> list[Device]:
    """One device per process, spread evenly over those asked for. Raises DeviceError."""
    if asked == "cpu":
        return [Device("cpu", "")] * processes
    if asked == "auto":
        chosen = inherited
        if not chosen:
            return [Device("cpu")] * processes
    else:
        chosen = _choose(asked, inherited)
    return [Device("cuda:0", chosen[index % len(chosen)]) for index in range(processes)]


def _choose(asked: str, inherited: list[str]) -> list[str]:
    match = re.fullmatch(r"cuda(?::([0-9]+(?:,[0-9]+)*))?", asked)
    if match is None:
        raise DeviceError(f"device {asked!r}: must be auto, cpu, cuda, or like cuda:0,1")
    if not inherited:
        raise DeviceError(f"device {asked!r}: no CUDA device is to be seen here")
    if match[1] is None:
        return inherited
    numbers = [int(number) for number in match[1].split(",")]
    missing = [str(number) for number in numbers if number >= len(inherited)]
    if missing:
        raise DeviceError(
            f"device {asked!r}: there is no device {', '.join(missing)} among the "
            f"{len(inherited)} to be seen here ({','.join(inherited)})"
        )
    return [inherited[number] for number in numbers]
