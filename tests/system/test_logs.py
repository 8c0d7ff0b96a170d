"""What a deployment's log tells, and to whom it never gives way."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.system.deployment import COMMAND, Deployment, Role, wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

PLUGIN = Path(__file__).parent / "plugins" / "talks.py"
PIPELINES = """
[pipelines.talks]
chain = ["talks"]
headers = ["x-listed"]
"""
TRACE = "0af7651916cd43dd8448eb211c80319c"
SECRET = "do-not-tell-anybody"
WITHIN_S = 30.0
LINES_DROPPED = re.compile(rb"(?m)^millstream_log_lines_dropped_total (\S+)")


class Mill:
    """A gateway, a broker and a worker that write JSON."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.broker = deployment.broker()
        self.supervisor = deployment.worker(PLUGIN, "--processes", "1")
        self.gateway = deployment.gateway("--access-log")
        deployment.wait_ready()

    def lines(self, role: Role) -> list[dict[str, Any]]:
        """Each line is JSON, whole or not yet written to its end."""
        whole, _, _ = role.output.rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def wait_for(self, role: Role, **fields: object) -> dict[str, Any]:
        """The first line that has these fields."""

        def found() -> dict[str, Any] | None:
            lines = self.lines(role)
            return next((line for line in lines if fields.items() <= line.items()), None)

        line = wait_until(found, WITHIN_S, f"{role.name} writes {fields}")
        assert line is not None
        return line

    def ask(self, what: str, request_id: str, **headers: str) -> int:
        """One request; its status."""
        sent = {"X-Request-Id": request_id, **headers}
        with self.deployment.client() as client:
            return client.post("/inference", json.dumps(what).encode(), sent).status


@pytest.fixture(scope="module")
def mill() -> Iterator[Mill]:
    with Deployment(pipelines=PIPELINES, env={"MILLSTREAM_LOG_FORMAT": "auto"}) as deployment:
        yield Mill(deployment)


def test_a_request_has_a_line_without_its_secrets(mill: Mill) -> None:
    headers = {
        "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
        "X-Api-Key": SECRET,
        "Authorization": SECRET,
        "X-Listed": SECRET,
    }
    assert mill.ask(SECRET, "one", **headers) == 200
    line = mill.wait_for(mill.gateway, event="answered", request_id="one")
    assert line["ms"] > 0.0
    assert line["timing"].startswith("talks-queue;dur=")
    for name in ("time", "pid", "ms", "timing"):
        del line[name]
    assert line == {
        "level": "info",
        "role": "gateway",
        "event": "answered",
        "pipeline": "talks",
        "version": "1",
        "status": 200,
        "request_id": "one",
        "bytes_in": len(SECRET) + 2,
        "bytes_out": 1,
        "client": "127.0.0.1",
        "trace_id": TRACE,
    }
    with mill.deployment.client() as client:
        client.get(f"/nothing?key={SECRET}")
    assert mill.wait_for(mill.gateway, target="/nothing")["status"] == 404
    for role in (mill.gateway, mill.broker, mill.supervisor):
        assert SECRET not in role.output


def test_a_failed_request_says_why(mill: Mill) -> None:
    with mill.deployment.client() as client:
        client.post("/inference", b"{", {"X-Request-Id": "bad"})
    line = mill.wait_for(mill.gateway, request_id="bad")
    assert (line["status"], line["code"], line["bytes_in"]) == (400, "bad_body", 1)
    assert "talks-queue" in line["timing"]


def test_what_a_plugin_says_bears_its_name_and_its_requests(mill: Mill) -> None:
    trace = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-00"}
    assert mill.ask("talk", "chatty", **trace) == 200
    for text in ("setting up", "from python", "to stderr", "from C"):
        line = mill.wait_for(mill.supervisor, event="printed", text=text)
        assert (line["role"], line["stage"], line["index"]) == ("worker", "talks", 0)
    for text, level, logger in (
        ("by its own log", "info", "plugin"),
        ("by a library's", "warning", "library"),
    ):
        line = mill.wait_for(mill.supervisor, event=text, level=level, logger=logger)
        assert (line["stage"], line["index"]) == ("talks", 0)
        assert (line["request_ids"], line["trace_ids"]) == (["chatty"], [TRACE])


def test_a_signal_shows_which_worker_ran_what(mill: Mill) -> None:
    mill.supervisor.send(signal.SIGUSR2)
    (worker,) = mill.supervisor.children()

    def told() -> bool:
        mill.ask("x", "traced")
        return any(line["event"] == "batch" for line in mill.lines(mill.supervisor))

    wait_until(told, WITHIN_S)
    line = mill.wait_for(mill.supervisor, event="batch")
    assert (line["level"], line["request_ids"], line["pid"]) == ("debug", ["traced"], worker.pid)
    mill.supervisor.send(signal.SIGUSR2)


def test_a_flood_of_prints_is_bounded_and_holds_nobody_up(mill: Mill) -> None:
    assert mill.ask("flood", "flood") == 200
    dropped = mill.wait_for(mill.supervisor, event="too much is printed")["lines_dropped"]
    printed = [line for line in mill.lines(mill.supervisor) if line.get("text", "")[:5] == "flood"]
    assert 0 < len(printed) < 20_000
    assert dropped > 10_000


def test_the_last_words_of_a_worker_are_kept(mill: Mill) -> None:
    assert mill.ask("abort", "end") in (500, 503)
    line = mill.wait_for(mill.supervisor, text="last worFatal Python error: Aborted")
    assert (line["stage"], line["index"]) == ("talks", 0)
    mill.deployment.wait_ready()


def test_a_reader_that_does_not_read_holds_no_gateway_up(mill: Mill) -> None:
    port = free_port()
    argv = [*COMMAND, "gateway", "--port", str(port), "--access-log"]
    path = "/" + "x" * 2000
    count = 1000  # some 2 MB, where a pipe and what is kept for it are 1.1
    with (
        subprocess.Popen(argv, env=mill.deployment.env, stderr=subprocess.PIPE) as gateway,
        mill.deployment.client(port=port) as client,
    ):
        assert gateway.stderr is not None
        while b'"url"' not in gateway.stderr.readline():
            pass
        for _ in range(count):  # nobody reads from here on
            assert client.get(path).status == 404
        told = LINES_DROPPED.search(client.get("/metrics").body)
        found = bytearray()
        while b"log lines dropped" not in found:
            found += os.read(gateway.stderr.fileno(), 1 << 16)
        gateway.terminate()
        while data := os.read(gateway.stderr.fileno(), 1 << 16):
            found += data
    lines = [json.loads(line) for line in found.splitlines()[1:]]  # the first was begun by readline
    answered = sum(line.get("target") == path for line in lines)
    dropped = sum(line["lines"] for line in lines if line["event"] == "log lines dropped")
    assert dropped > 0
    assert told is not None
    assert 0 < float(told[1]) <= dropped
    assert answered + dropped >= count - 10  # and what readline took
    assert gateway.returncode == 0
