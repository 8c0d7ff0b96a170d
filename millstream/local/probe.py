"""Asks a gateway on this host whether all is ready, with a socket and nothing more."""

import contextlib
import socket

_LEAST_WAIT_S, _MOST_WAIT_S = 0.02, 0.2
_ANSWER_S = 1.0


def is_ready(host: str, port: int, uds: str) -> bool:
    """Whether GET /readyz answers 200 within a second."""
    with contextlib.suppress(OSError), _connect(host, port, uds) as connection:
        connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return connection.recv(64).startswith(b"HTTP/1.1 200")
    return False


def pause_s(waited_s: float) -> float:
    """How long to wait between two such questions: longer where it takes long anyway."""
    return min(max(waited_s / 20, _LEAST_WAIT_S), _MOST_WAIT_S)


def taken(host: str, port: int) -> str:
    """Why nobody can listen there now; "" where one can."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        return f"{host} is no address of this host: {error.strerror}"
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                return error.strerror or str(error)
    return ""


def free_port(host: str) -> int:
    """One that nobody listens at now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def reachable(host: str) -> str:
    """The host to connect to for one that was listened at."""
    return {"0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "::1"}.get(host, host)


def _connect(host: str, port: int, uds: str) -> socket.socket:
    if not uds:
        return socket.create_connection((reachable(host), port), _ANSWER_S)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(_ANSWER_S)
        connection.connect(uds)
    except OSError:
        connection.close()
        raise
    return connection
