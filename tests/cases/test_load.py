"""Clients that hold on to connections, floods of bytes, and limits of the system."""

import shlex
import socket
import time
from contextlib import ExitStack

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.cases.standing import JSON, Standing
from tests.system.client import Client
from tests.system.deployment import wait_until

pytestmark = pytest.mark.system

DRIPS = 100
UPLOAD = (
    b"POST /pipelines/toy HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000000\r\n\r\n"
)


def test_clients_that_drip_and_others_that_are_idle(standing: Standing, client: Client) -> None:
    """Heads and bodies that never end are given up in time, and harm nobody."""
    assert client.post("/pipelines/toy", b"1", JSON).status == 200
    gateway = psutil.Process(standing.gateway.pid)
    before = gateway.num_fds()
    with ExitStack() as stack:
        raws = [
            stack.enter_context(socket.create_connection(("127.0.0.1", standing.mill.port)))
            for _ in range(3 * DRIPS)
        ]
        for raw in raws[:DRIPS]:
            raw.sendall(b"GET /h HTTP/1.1\r\n")
        for raw in raws[DRIPS : 2 * DRIPS]:
            raw.sendall(UPLOAD)
        given_up: set[socket.socket] = set()
        end = time.monotonic() + 30.0
        while len(given_up) < 2 * DRIPS:
            assert time.monotonic() < end, f"{len(given_up)} of {2 * DRIPS} are given up"
            assert client.post("/pipelines/toy", b"1", JSON).status == 200
            for raw in raws[: 2 * DRIPS]:
                if raw not in given_up and _drip(raw) is not None:
                    given_up.add(raw)
        idle = raws[-1]
        idle.sendall(b"GET /livez HTTP/1.1\r\nHost: t\r\n\r\n")
        assert idle.recv(100).startswith(b"HTTP/1.1 200 "), "those that only wait may stay"
    wait_until(lambda: gateway.num_fds() <= before, 10.0, "descriptors are left")


def _drip(raw: socket.socket) -> bytes | None:
    """One byte more; what has been answered, None while nothing has."""
    try:
        raw.setblocking(False)
        raw.send(b"x")
        return raw.recv(4096)
    except BlockingIOError:
        return None
    except ConnectionError:
        return b""


def test_a_flood_of_bytes_is_refused_at_once_and_forgotten(
    standing: Standing, client: Client
) -> None:
    body = "x" * 100_000
    before = standing.answered("small", 429)

    def all_have_come() -> bool:
        held = standing.mill.status()["pipelines"]["small"]["items"]
        return bool(held + standing.answered("small", 429) - before == 40)

    with standing.busy(until=all_have_come):
        answers = standing.together("/pipelines/small", [body] * 40)
    codes = [answer.code for answer in answers]
    assert set(codes) == {"queue_full", ""}
    assert 1 <= codes.count("") <= 10, "a million bytes, and no more"
    refused = [answer for answer in answers if answer.code == "queue_full"]
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    about = standing.mill.status()["pipelines"]["small"]
    assert (about["items"], about["bytes"]) == (0, 0)
    assert client.post_json("/pipelines/small", body).status == 200


def test_a_broker_with_too_few_files_says_so_in_one_line(standing: Standing) -> None:
    command = shlex.join([*standing.mill.command, "broker", "pipelines.toml"])
    ran = standing.mill.spawn(["bash", "-c", f"ulimit -n 64; exec {command}"], name="short")
    ran.expected_exit = 2
    ran.check_exit()
    assert "may open 64 files" in ran.output
    assert ran.output.count("\n") == 1
