"""The broker's address: the default, what may be written, and folders not to be trusted."""

import os
import socket
from pathlib import Path

import pytest

from broker.wire.address import (
    Address,
    AddressError,
    check_ipc_folder,
    default_address,
    is_loopback,
    needs_keys,
    parse_address,
    prepare_ipc_folder,
)

TMP = f"ipc:///tmp/millstream-{os.getuid()}/broker.sock"
EXAMPLE = "ipc:///run/millstream/broker.sock or tcp://10.0.0.5:5570"


def refusal(address: str, *, bind: bool = False) -> str:
    with pytest.raises(AddressError) as caught:
        parse_address(address, bind=bind)
    return str(caught.value)


def folder_refusal(address: str) -> str:
    with pytest.raises(AddressError) as caught:
        prepare_ipc_folder(address)
    return str(caught.value)


def test_default_in_the_runtime_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    expected = f"ipc://{tmp_path}/millstream/broker.sock"
    assert default_address({"XDG_RUNTIME_DIR": str(tmp_path)}) == expected


@pytest.mark.parametrize("runtime", ["", "run", "/no/such/folder", "/etc/passwd"])
def test_default_without_a_runtime_folder(runtime: str) -> None:
    assert default_address({"XDG_RUNTIME_DIR": runtime, "TMPDIR": "/var/tmp"}) == TMP
    assert default_address({}) == TMP


def test_default_ignores_a_runtime_folder_of_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert default_address({"XDG_RUNTIME_DIR": str(tmp_path)}) == TMP


def test_default_too_long(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir(mode=0o700)
    with pytest.raises(AddressError, match="at most 107 bytes"):
        default_address({"XDG_RUNTIME_DIR": str(deep)})


def test_parts() -> None:
    assert parse_address("ipc:///a/b.sock") == Address("ipc:///a/b.sock", path="/a/b.sock")
    four = parse_address("tcp://10.0.0.5:5570")
    assert (four.host, four.port, four.ipv6) == ("10.0.0.5", 5570, False)
    six = parse_address("tcp://[fe80::1]:1")
    assert (six.text, six.host, six.port, six.ipv6) == ("tcp://[fe80::1]:1", "fe80::1", 1, True)
    assert parse_address("tcp://broker-1.example.com:65535").host == "broker-1.example.com"


@pytest.mark.parametrize("text", ["tcp://*:5570", "tcp://0.0.0.0:5570", "tcp://[::]:5570"])
def test_every_interface_is_for_binding(text: str) -> None:
    assert parse_address(text, bind=True).port == 5570
    assert refusal(text) == (
        f"'{text}' names no host to connect to; give the broker's own, such as tcp://127.0.0.1:5570"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5570",
        "localhost:5570",
        "tcp://",
        "tcp://:5570",
        "tcp://host",
        "tcp://host:*",
        "tcp://host:123456",
        "tcp://a;b:5570",
        "tcp://::1:5570",
        "tcp://ho st:5570",
        "http://host:5570",
        "inproc://x",
        "tcp://host:5570/",
        "tcp://host:5570\n",
        "TCP://host:5570",
    ],
)
def test_no_address(text: str) -> None:
    assert refusal(text, bind=True) == f"{text!r} is no address of a broker; one is {EXAMPLE}"


def test_near_misses() -> None:
    assert refusal("tcp://host:0") == "'tcp://host:0': the port must be 1 to 65535"
    assert refusal("tcp://host:65536") == "'tcp://host:65536': the port must be 1 to 65535"
    assert refusal("tcp://10.0.0:5570") == "'tcp://10.0.0:5570': 10.0.0 is no IP address"
    assert refusal("tcp://[1::2::3]:5") == "'tcp://[1::2::3]:5': 1::2::3 is no IP address"
    for text in ("ipc://", "ipc://broker.sock", "ipc://@abstract", "ipc://*", "ipc:///run/"):
        assert refusal(text) == (
            f"'{text}': ipc:// needs the absolute path of a socket, as in {EXAMPLE}"
        )


def test_the_longest_path() -> None:
    path = "/" + "é" * 53
    assert parse_address(f"ipc://{path}").path == path
    assert refusal(f"ipc://{path}x") == (
        f"the path of an ipc address has at most 107 bytes; this one has 108: {path}x"
    )


@pytest.mark.parametrize(
    ("text", "loopback"),
    [
        ("ipc:///a/b.sock", True),
        ("tcp://127.0.0.1:1", True),
        ("tcp://127.8.9.1:1", True),
        ("tcp://localhost:1", True),
        ("tcp://[::1]:1", True),
        ("tcp://*:1", False),
        ("tcp://0.0.0.0:1", False),
        ("tcp://[::]:1", False),
        ("tcp://10.0.0.5:1", False),
        ("tcp://broker:1", False),
        ("tcp://eth0:1", False),
    ],
)
def test_who_needs_keys(text: str, loopback: bool) -> None:
    assert is_loopback(text) is loopback
    assert needs_keys(text) is not loopback


def test_the_folder_is_made_for_us_alone(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/run/broker.sock"
    check_ipc_folder(address)  # nothing there is nothing wrong
    for _ in range(2):
        prepare_ipc_folder(address)
        assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    prepare_ipc_folder("tcp://*:5570")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/a/b/broker.sock"
    assert folder_refusal(address) == (
        f"{address}: cannot make {tmp_path}/a/b: No such file or directory"
    )


def test_a_folder_that_others_may_write_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    address = f"ipc://{tmp_path}/broker.sock"
    assert folder_refusal(address) == (
        f"{address}: others may write to the folder {tmp_path} (mode 0770); chmod 700 it"
    )
    tmp_path.chmod(0o755)
    prepare_ipc_folder(address)


def test_a_link_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "real")
    address = f"ipc://{tmp_path}/run/broker.sock"
    assert folder_refusal(address) == (
        f"{address}: {tmp_path}/run is no folder (nor may it be a link to one)"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_what_belongs_to_another_user(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/run/broker.sock"
    (tmp_path / "run").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{tmp_path}/run/broker.sock")
    prepare_ipc_folder(address)  # a socket of ours that nobody serves
    os.chown(tmp_path / "run" / "broker.sock", 12345, -1)
    assert folder_refusal(address) == f"{address}: the socket there belongs to user 12345"
    os.chown(tmp_path / "run", 12345, -1)
    assert folder_refusal(address) == (
        f"{address}: the folder {tmp_path}/run belongs to user 12345"
    )


def test_a_file_in_place_of_the_socket_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("precious")
    address = f"ipc://{tmp_path}/notes.txt"
    assert folder_refusal(address) == f"{address}: what is there is no socket"


def test_the_common_temporary_folder_may_be_chosen() -> None:
    check_ipc_folder(f"ipc:///tmp/millstream-test-{os.getpid()}.sock")
