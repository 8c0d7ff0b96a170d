"""The folder of CURVE keys that guards tcp: its layout, and reading and writing it.

Knows z85 text in files, and neither sockets nor how keys are made.

    broker.public   broker.secret    the broker's pair
    client.public   client.secret    the pair of gateways, workers and commands
    clients/NAME.public              whom the broker lets in, one file each

Keys are the 40 ASCII characters of z85 everywhere, as ZeroMQ's sockets take them. The broker's host
needs broker.public, broker.secret and clients/; every other host broker.public and the client pair.
"""

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_KEY = re.compile(rb"[0-9a-zA-Z.:+=^!/*?&<>()\[\]{}@%$#-]{40}")
_MAKE = "make keys with: millstream keys DIR"


class KeysError(Exception):
    """A keys folder cannot be used; the message is one line that names the file."""


class KeyPair(NamedTuple):
    """One CURVE pair, in z85."""

    public: bytes
    secret: bytes


class ClientKeys(NamedTuple):
    """What a gateway, worker or command needs: its own pair, and the broker's public key."""

    public: bytes
    secret: bytes
    server: bytes


class BrokerKeys(NamedTuple):
    """What the broker needs: its own pair, and the public keys that it lets in."""

    public: bytes
    secret: bytes
    allowed: frozenset[bytes]


def load_client_keys(folder: str | os.PathLike[str]) -> ClientKeys:
    """The keys to connect with. Raises KeysError."""
    path = _folder(folder)
    return ClientKeys(
        public=_read(path / "client.public"),
        secret=_read_secret(path / "client.secret"),
        server=_read(path / "broker.public"),
    )


def load_broker_keys(folder: str | os.PathLike[str]) -> BrokerKeys:
    """The keys to listen with. Raises KeysError, also where `clients/` lets nobody in."""
    path = _folder(folder)
    return BrokerKeys(
        public=_read(path / "broker.public"),
        secret=_read_secret(path / "broker.secret"),
        allowed=_read_allowed(path / "clients"),
    )


def write_keys(folder: str | os.PathLike[str], *, broker: KeyPair, client: KeyPair) -> None:
    """Writes new keys, the secrets readable by nobody else; the client is let in.

    Raises KeysError where that fails, and where keys are there already: those are never replaced.
    """
    path = Path(folder)
    files = {
        path / "broker.public": broker.public,
        path / "broker.secret": broker.secret,
        path / "client.public": client.public,
        path / "client.secret": client.secret,
        path / "clients" / "client.public": client.public,
    }
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / "clients").mkdir(mode=0o700, exist_ok=True)
        for file in files:
            if file.exists():
                raise KeysError(f"{file} is there already; choose a new folder")
        for file, key in files.items():
            _write(file, key)
    except OSError as error:
        raise KeysError(f"{error.filename or path}: {error.strerror}") from None


def _write(file: Path, key: bytes) -> None:
    mode = 0o600 if file.suffix == ".secret" else 0o644
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
        out.write(key + b"\n")


def _folder(folder: str | os.PathLike[str]) -> Path:
    path = Path(folder)
    if not path.exists():
        raise KeysError(f"{path}: no such folder; {_MAKE}")
    if not path.is_dir():
        raise KeysError(f"{path}: is no folder; {_MAKE}")
    return path


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as source:
            text = source.read(200).strip()
    except FileNotFoundError:
        raise KeysError(f"{file}: no such file; {_MAKE}") from None
    except OSError as error:
        raise KeysError(f"{file}: {error.strerror}") from None
    if not _is_key(text):
        raise KeysError(f"{file}: holds no key, which is 40 characters of z85")
    return text


def _read_secret(file: Path) -> bytes:
    key = _read(file)
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & 0o077:
        raise KeysError(f"{file}: others can read or change it (mode {mode:04o}); chmod 600 it")
    return key


def _read_allowed(folder: Path) -> frozenset[bytes]:
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except FileNotFoundError:
        raise KeysError(f"{folder}: no such folder; it holds the clients' public keys") from None
    except OSError as error:
        raise KeysError(f"{folder}: {error.strerror}") from None
    for name in names:
        if not name.endswith(".public"):
            raise KeysError(f"{folder / name}: is no client's public key, named NAME.public")
    if not names:
        raise KeysError(f"{folder}: lets nobody in; copy a client.public there")
    return frozenset(_read(folder / name) for name in names)


def _is_key(text: bytes) -> bool:
    """Whether it is z85 of 32 bytes: each five characters are a number below 2**32."""
    if _KEY.fullmatch(text) is None:
        return False
    digits = [_Z85.index(chr(character)) for character in text]
    for start in range(0, 40, 5):
        number = 0
        for digit in digits[start : start + 5]:
            number = number * 85 + digit
        if number >= 1 << 32:
            return False
    return True
