"""Where the broker listens: the default address, what an address may be, and whom it lets in.

Opens no socket. The folder of an ipc address is its only protection, so it is looked at here.
"""

import ipaddress
import os
import re
import stat
from collections.abc import Mapping
from typing import NamedTuple

MAX_IPC_PATH_BYTES = 107
"""sockaddr_un holds 108, and the last one is NUL."""

_TCP = re.compile(r"tcp://(?P<host>\*|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_EXAMPLE = "ipc:///run/millstream/broker.sock or tcp://10.0.0.5:5570"


class AddressError(Exception):
    """An address cannot be used; the message is one line for the person who wrote it."""


class Address(NamedTuple):
    """`text` as sockets take it, and its parts: `path` of ipc, `host` (no brackets) and `port`."""

    text: str
    path: str = ""
    host: str = ""
    port: int = 0

    @property
    def ipv6(self) -> bool:
        """Whether sockets need their IPV6 option for it."""
        return ":" in self.host


def default_address(environ: Mapping[str, str]) -> str:
    """The ipc address that all processes of one user on one host agree on.

    It lies in $XDG_RUNTIME_DIR where that is a folder of ours that nobody else may write to, else
    in /tmp. TMPDIR is not asked: it differs between a shell and a service, and the two must meet.
    Raises AddressError where the path comes out too long.
    """
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and _is_private(runtime):
        folder = os.path.join(runtime, "millstream")
    else:
        folder = f"/tmp/millstream-{os.getuid()}"
    return parse_address(f"ipc://{folder}/broker.sock").text


def parse_address(text: str, *, bind: bool = False) -> Address:
    """The parts of an address; with `bind` it may name every interface (`*`, 0.0.0.0, [::]).

    Raises AddressError for anything but an ipc address with an absolute path that fits, and a tcp
    address with a host and a port.
    """
    if text.startswith("ipc://"):
        return _parse_ipc(text)
    match = _TCP.fullmatch(text)
    if match is None:
        raise AddressError(f"{text!r} is no address of a broker; one is {_EXAMPLE}")
    host, port = match["host"].strip("[]"), int(match["port"])
    if ":" in host or re.fullmatch(r"[0-9.]+", host):
        _check_ip(text, host)
    if not 1 <= port <= 65535:
        raise AddressError(f"{text!r}: the port must be 1 to 65535")
    if not bind and host in {"*", "0.0.0.0", "::"}:
        raise AddressError(
            f"{text!r} names no host to connect to; give the broker's own, "
            f"such as tcp://127.0.0.1:{port}"
        )
    return Address(text, host=host, port=port)


def is_loopback(address: str) -> bool:
    """Whether only processes of this host can reach it."""
    parsed = parse_address(address, bind=True)
    if parsed.path or parsed.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(parsed.host).is_loopback
    except ValueError:  # "*", a host's or an interface's name
        return False


def needs_keys(address: str) -> bool:
    """Whether others than this host's own processes could join: tcp beyond loopback."""
    return not is_loopback(address)


def prepare_ipc_folder(address: str) -> None:
    """Makes the folder of an ipc address, mode 0700, and checks it; for the broker, before binding.

    Raises AddressError as `check_ipc_folder` does, or where the folder cannot be made. Does nothing
    for tcp.
    """
    path = parse_address(address, bind=True).path
    if not path:
        return
    folder = os.path.dirname(path)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise AddressError(f"{address}: cannot make {folder}: {error.strerror}") from None
    check_ipc_folder(address)


def check_ipc_folder(address: str) -> None:
    """Raises AddressError unless what lies at an ipc address is ours, or nothing does.

    The folder must be ours, no link, and closed to other writers: else others could put a socket of
    their own there. A folder such as /tmp (of root, sticky) will do for an address that somebody
    chose. What is there already must be a socket of ours, for binding replaces it.
    """
    path = parse_address(address, bind=True).path
    if not path:
        return
    folder = os.path.dirname(path)
    try:
        about = os.lstat(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise AddressError(f"{address}: cannot look at {folder}: {error.strerror}") from None
    if not stat.S_ISDIR(about.st_mode):
        raise AddressError(f"{address}: {folder} is no folder (nor may it be a link to one)")
    if not (about.st_uid == 0 and about.st_mode & stat.S_ISVTX):
        if about.st_uid != os.getuid():
            raise AddressError(f"{address}: the folder {folder} belongs to user {about.st_uid}")
        if about.st_mode & 0o022:
            raise AddressError(
                f"{address}: others may write to the folder {folder} "
                f"(mode {stat.S_IMODE(about.st_mode):04o}); chmod 700 it"
            )
    _check_socket(address, path)


def _check_socket(address: str, path: str) -> None:
    try:
        about = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise AddressError(f"{address}: cannot look at it: {error.strerror}") from None
    if not stat.S_ISSOCK(about.st_mode):
        raise AddressError(f"{address}: what is there is no socket")
    if about.st_uid != os.getuid():
        raise AddressError(f"{address}: the socket there belongs to user {about.st_uid}")


def _parse_ipc(text: str) -> Address:
    path = text.removeprefix("ipc://")
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise AddressError(
            f"{text!r}: ipc:// needs the absolute path of a socket, as in {_EXAMPLE}"
        )
    length = len(os.fsencode(path))
    if length > MAX_IPC_PATH_BYTES:
        raise AddressError(
            f"the path of an ipc address has at most {MAX_IPC_PATH_BYTES} bytes; "
            f"this one has {length}: {path}"
        )
    return Address(text, path=path)


def _check_ip(text: str, host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise AddressError(f"{text!r}: {host} is no IP address") from None


def _is_private(folder: str) -> bool:
    try:
        about = os.stat(folder)
    except OSError:
        return False
    mode = about.st_mode
    return stat.S_ISDIR(mode) and about.st_uid == os.getuid() and not mode & 0o022
