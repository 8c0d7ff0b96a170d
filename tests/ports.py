"""Ports for servers of the tests: no two processes that run tests are ever given the same."""

import socket
from collections.abc import Iterator
from itertools import cycle

HOST = "127.0.0.1"
BLOCKS = range(15_000, 32_000, 200)
"""Below the ports that Linux gives to outgoing connections, and to servers that ask for any."""


def free_port() -> int:
    """A port that nobody listens at, in a block that is this process's own."""
    return next(_ports)


def _free_ports() -> Iterator[int]:
    for first in BLOCKS:
        with socket.socket() as guard:
            if not _is_bound(guard, first):
                continue
            for port in cycle(range(first + 1, first + BLOCKS.step)):
                with socket.socket() as probe:
                    is_free = _is_bound(probe, port)
                if is_free:
                    yield port
    raise RuntimeError("no block of ports is free")


def _is_bound(probe: socket.socket, port: int) -> bool:
    try:
        probe.bind((HOST, port))
    except OSError:
        return False
    return True


_ports = _free_ports()
