"""Which process sees which device."""

from pathlib import Path

import pytest

from workers.devices import Device, DeviceError, assign, inherited_devices


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with a driver and two devices."""
    (tmp_path / "dev").mkdir()
    for name in ("nvidiactl", "nvidia0", "nvidia1", "nvidia-uvm", "null"):
        (tmp_path / "dev" / name).touch()
    return tmp_path


def test_without_a_driver_there_is_nothing(tmp_path: Path) -> None:
    assert inherited_devices({"CUDA_VISIBLE_DEVICES": "0"}, tmp_path) == []


@pytest.mark.parametrize(
    ("listed", "devices"),
    [
        (None, ["0", "1"]),
        ("", []),
        ("-1", []),
        ("1", ["1"]),
        ("3, 2", ["3", "2"]),
        ("0,-1,1", ["0"]),
        ("GPU-8f6a,MIG-77ab", ["GPU-8f6a", "MIG-77ab"]),
    ],
)
def test_the_inherited_list(host: Path, listed: str | None, devices: list[str]) -> None:
    environ = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    assert inherited_devices(environ, host) == devices


def test_processes_are_spread() -> None:
    assert assign("auto", 3, ["GPU-a", "1"]) == [
        Device("cuda:0", "GPU-a"), Device("cuda:0", "1"), Device("cuda:0", "GPU-a"),
    ]  # fmt: skip
    assert assign("cuda:1", 1, ["4", "MIG-x"]) == [Device("cuda:0", "MIG-x")]
    assert assign("cuda", 1, ["4"]) == [Device("cuda:0", "4")]


def test_without_cuda() -> None:
    assert assign("auto", 2, []) == [Device("cpu")] * 2
    assert assign("cpu", 1, ["0"]) == [Device("cpu", "")]  # it does not even see the GPU


@pytest.mark.parametrize(
    ("asked", "inherited", "message"),
    [
        ("cuda:2", ["0", "1"], "no device 2 among the 2"),
        ("cuda:0", [], "no CUDA device"),
        ("cuda", [], "no CUDA device"),
        ("gpu", ["0"], "must be auto"),
        ("cuda:", ["0"], "must be auto"),
        ("cuda:-1", ["0"], "must be auto"),
    ],
)
def test_devices_that_are_not_there(asked: str, inherited: list[str], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        assign(asked, 1, inherited)
