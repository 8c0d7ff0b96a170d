"""The keys folder: written once, read back, and every way in which it can be wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from broker.wire.keys import (
    BrokerKeys,
    ClientKeys,
    KeyPair,
    KeysError,
    load_broker_keys,
    load_client_keys,
    write_keys,
)

BROKER = KeyPair(*zmq.curve_keypair())
CLIENT = KeyPair(*zmq.curve_keypair())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "new" / "keys"
    write_keys(path, broker=BROKER, client=CLIENT)
    return path


def refusal(load: Callable[[Path], object], folder: Path) -> str:
    with pytest.raises(KeysError) as caught:
        load(folder)
    return str(caught.value)


def test_what_is_written_is_read(folder: Path) -> None:
    assert load_client_keys(folder) == ClientKeys(CLIENT.public, CLIENT.secret, BROKER.public)
    assert load_broker_keys(str(folder)) == BrokerKeys(
        BROKER.public, BROKER.secret, frozenset([CLIENT.public])
    )


def test_modes(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    for secret in ("broker.secret", "client.secret"):
        assert (folder / secret).stat().st_mode & 0o777 == 0o600


def test_keys_are_never_replaced(folder: Path) -> None:
    before = load_broker_keys(folder)
    (folder / "broker.public").unlink()
    with pytest.raises(KeysError) as caught:
        write_keys(folder, broker=CLIENT, client=BROKER)
    assert str(caught.value) == f"{folder}/broker.secret is there already; choose a new folder"
    assert not (folder / "broker.public").exists()
    (folder / "broker.public").write_bytes(before.public)
    assert load_broker_keys(folder) == before


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KeysError, match="file: File exists"):
        write_keys(tmp_path / "file", broker=BROKER, client=CLIENT)


def test_further_clients(folder: Path) -> None:
    other = zmq.curve_keypair()[0]
    (folder / "clients" / "gpu-2.public").write_bytes(other)
    (folder / "clients" / ".hidden").touch()
    assert load_broker_keys(folder).allowed == {CLIENT.public, other}


def test_each_side_needs_its_own_files_alone(folder: Path) -> None:
    for name in ("broker.secret", "clients/client.public"):
        (folder / name).unlink()
    (folder / "clients").rmdir()
    load_client_keys(folder)
    assert refusal(load_broker_keys, folder) == (
        f"{folder}/broker.secret: no such file; make keys with: millstream keys DIR"
    )


def test_missing(tmp_path: Path, folder: Path) -> None:
    assert refusal(load_client_keys, tmp_path / "no") == (
        f"{tmp_path}/no: no such folder; make keys with: millstream keys DIR"
    )
    file = folder / "broker.public"
    assert refusal(load_client_keys, file) == (
        f"{file}: is no folder; make keys with: millstream keys DIR"
    )
    file.unlink()
    assert refusal(load_client_keys, folder) == (
        f"{file}: no such file; make keys with: millstream keys DIR"
    )
    file.mkdir()
    assert refusal(load_client_keys, folder) == f"{file}: Is a directory"


@pytest.mark.parametrize(
    "text",
    [b"", b"x" * 39, b"x" * 41, b"x" * 5000, b"~" * 40, b"\xff" * 40, b"#" * 40, b"a b" * 13],
)
def test_malformed(folder: Path, text: bytes) -> None:
    file = folder / "client.public"
    file.write_bytes(text)
    assert refusal(load_client_keys, folder) == (
        f"{file}: holds no key, which is 40 characters of z85"
    )


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_secret_that_others_can_read(folder: Path, mode: int) -> None:
    file = folder / "broker.secret"
    file.chmod(mode)
    assert refusal(load_broker_keys, folder) == (
        f"{file}: others can read or change it (mode {mode:04o}); chmod 600 it"
    )
    load_client_keys(folder)


def test_who_is_let_in(folder: Path) -> None:
    clients = folder / "clients"
    stray = clients / "client.secret"
    stray.write_bytes(CLIENT.secret)
    assert refusal(load_broker_keys, folder) == (
        f"{stray}: is no client's public key, named NAME.public"
    )
    stray.unlink()
    (clients / "client.public").write_text("nonsense")
    assert refusal(load_broker_keys, folder) == (
        f"{clients}/client.public: holds no key, which is 40 characters of z85"
    )
    (clients / "client.public").unlink()
    assert refusal(load_broker_keys, folder) == (
        f"{clients}: lets nobody in; copy a client.public there"
    )
    clients.rmdir()
    assert refusal(load_broker_keys, folder) == (
        f"{clients}: no such folder; it holds the clients' public keys"
    )
