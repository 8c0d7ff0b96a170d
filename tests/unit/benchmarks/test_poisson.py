"""The load generator against real servers: it waits for none of them, and counts what each does."""

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import uvloop
from msgspec.structs import replace

from benchmarks.open_loop import Figures, Plan
from benchmarks.poisson import generate
from millstream.bench.target import Target, encode
from tests.ports import free_port

Reply = Callable[[asyncio.Transport], None]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
TARGET = Target(url="http://host:1/a?b=c", headers=["X-Api-Key: k"], bodies=[b'{"x": 1}'])
# Short, and with a deadline of which a busy machine's lag is no tenth.
PLAN = Plan(rate_per_s=400.0, seconds=0.2, deadline_s=0.4, seed=3, warm_up_s=0.0)


class Server(asyncio.Protocol):
    """One connection. `reply` is given its transport for each `request`; others go to `wrong`."""

    def __init__(self, request: bytes, reply: Reply, wrong: list[bytes]) -> None:
        self._request = request
        self._reply = reply
        self._wrong = wrong
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._received == self._request:
            self._received = b""
            self._reply(self._transport)
        elif not self._request.startswith(self._received):
            self._wrong.append(self._received)


def measure(plan: Plan, reply: Reply) -> Figures:
    """Carry the plan out against a server that replies so."""
    wrong: list[bytes] = []

    async def run() -> Figures:
        port = free_port()
        target = replace(TARGET, url=f"http://127.0.0.1:{port}/a?b=c")
        (request,) = encode(target)
        server = await asyncio.get_running_loop().create_server(
            lambda: Server(request, reply, wrong), "127.0.0.1", port, backlog=1024
        )
        figures = await generate(target, plan)
        server.close()
        return figures

    figures = uvloop.run(run())
    assert not wrong
    return figures


def later(transport: asyncio.Transport, delay_s: float, data: bytes) -> None:
    asyncio.get_running_loop().call_later(delay_s, transport.write, data)


def test_a_request_is_one_post_with_its_headers() -> None:
    assert encode(TARGET) == [
        b'POST /a?b=c HTTP/1.1\r\nHost: host:1\r\nX-Api-Key: k\r\nContent-Length: 8\r\n\r\n{"x": 1}'
    ]


def succeeded(found: Figures) -> int:
    """Answers of 200, of which a busy machine may make some late."""
    return found.in_time + found.late - found.abandoned


def test_every_request_is_sent_and_its_answer_counted() -> None:
    found = measure(PLAN, lambda transport: transport.write(OK))
    assert found.sent == succeeded(found) == len(PLAN.counted(PLAN.moments()))
    assert found.success_p50_ms is not None
    assert found.closed_by_server == 0


def test_it_goes_on_sending_while_nothing_is_answered_and_then_gives_up() -> None:
    plan = Plan(rate_per_s=400.0, seconds=0.2, deadline_s=0.2, seed=3, warm_up_s=0.0)
    unanswered: list[asyncio.Transport] = []
    found = measure(plan, unanswered.append)
    assert len(unanswered) == len(plan.moments())
    assert found.sent == found.late == found.abandoned == len(plan.counted(plan.moments()))
    # Each on a connection of its own, of which the server closed none.
    assert found.connections >= len(unanswered)
    assert found.closed_by_server == 0


def test_what_comes_after_the_deadline_is_late() -> None:
    plan = Plan(rate_per_s=400.0, seconds=0.2, deadline_s=0.2, seed=3, warm_up_s=0.0)
    found = measure(plan, lambda transport: later(transport, 0.3, OK))
    assert found.sent == found.late
    assert found.abandoned == 0
    assert found.success_p50_ms is not None
    assert found.success_p50_ms >= 300.0


def test_refusals_are_told_by_their_status() -> None:
    answers = itertools.cycle([OK, BUSY, BUSY])
    found = measure(PLAN, lambda transport: transport.write(next(answers)))
    assert succeeded(found) + found.refused["503"] == found.sent
    assert succeeded(found) == pytest.approx(found.sent / 3, abs=1)


def test_a_server_that_closes_after_each_answer_is_served_by_new_connections() -> None:
    def close_after(transport: asyncio.Transport) -> None:
        transport.write(LAST)
        transport.close()

    found = measure(PLAN, close_after)
    assert succeeded(found) == found.sent
    assert found.closed_by_server >= found.sent


def test_a_connection_that_ends_breaks_its_request_alone() -> None:
    numbers = itertools.count()

    def answer_or_end(transport: asyncio.Transport) -> None:
        if next(numbers) % 2:
            transport.abort()
        else:
            transport.write(OK)

    found = measure(PLAN, answer_or_end)
    assert succeeded(found) + found.broken == found.sent
    assert found.broken == pytest.approx(found.sent / 2, abs=1)


def test_what_is_no_answer_is_a_fault() -> None:
    found = measure(PLAN, lambda transport: transport.write(b"SSH-2.0-nobody\r\n\r\n"))
    assert "no HTTP/1 answer" in found.fault
    assert found.broken == found.sent


async def run_command(*arguments: str) -> tuple[int, str, str]:
    """The exit code of the command, and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benchmarks.poisson", "--deadline-ms", "500", "--seconds", "0.2", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode or 0, out.decode(), err.decode()


def test_the_command_prints_the_figures_as_json(tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"a body")
    came: list[bytes] = []

    class Recorder(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = cast(asyncio.Transport, transport)

        def data_received(self, data: bytes) -> None:
            came.append(data)
            self._transport.write(OK)

    async def run() -> tuple[str, tuple[int, str, str]]:
        server = await asyncio.get_running_loop().create_server(Recorder, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/a"
        ran = await run_command(
            *("--url", url, "--rate", "100", "--body", str(body), "--header", "A: b"),
            *("--warm-up", "0", "--seed", "5"),
        )
        server.close()
        return url, ran

    url, (code, out, _) = asyncio.run(run())
    plan = Plan(rate_per_s=100.0, seconds=0.2, deadline_s=0.5, seed=5, warm_up_s=0.0)
    assert code == 0
    assert json.loads(out)["sent"] == len(plan.counted(plan.moments()))
    (request,) = encode(Target(url=url, headers=["A: b"], bodies=[b"a body"]))
    assert came == [request] * len(plan.moments())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--url", "ftp://a/", "--rate", "1"), "is no http://HOST:PORT/PATH"),
        (("--url", "http://a/", "--rate", "0"), "must be more than 0"),
        (("--url", "http://a/", "--rate", "1", "--header", "A"), "is no NAME: VALUE"),
    ],
)
def test_wrong_usage_is_told(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = asyncio.run(run_command("--body", os.devnull, *arguments))
    assert (code, out) == (2, "")
    assert said in err


def test_where_nobody_listens_there_is_no_measurement() -> None:
    url = f"http://127.0.0.1:{free_port()}/"
    ran = run_command("--url", url, "--rate", "10", "--body", os.devnull)
    code, out, err = asyncio.run(ran)
    assert (code, out) == (1, "")
    assert url in err
