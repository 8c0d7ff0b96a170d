"""Requests, changed, on raw sockets to a gateway in a process of its own.

Each is answered in HTTP or hung up on, soon; a good request in between is answered; and in the end
the process holds nothing, has the descriptors it had, and next to no more memory.
"""

import gzip
import json
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random

import psutil  # type: ignore[import-untyped]  # it ships no types

from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Finding
from tests.integration.gateway.fake_broker import FakeBroker
from tests.integration.gateway.harness import RawClient
from tests.system.deployment import Deployment, Role, wait_until

ANSWERED_S = 5.0
WARM_STEPS = 500
"""What is imported and cached at first has been by then."""
GOOD_EVERY = 50
GROWTH_BYTES = 24 << 20

METHODS = ("POST", "POST", "POST", "GET", "HEAD", "PUT", "OPTIONS", "CONNECT", "post", "PRI")
TARGETS = (
    *("/pipelines/digits", "/pipelines/digits", "/pipelines/digits/versions/v1", "/inference"),
    *("/livez", "/readyz?pipeline=digits", "/metrics", "/pipelines", "/pipelines/%2F..%00", "*"),
    *("http://t:1/pipelines/digits?a=%zz#f", "//", "/pipelines/" + "x" * 8000, "example.org:443"),
)
HEADERS = (
    *("Content-Type: application/json", "Content-Type: multipart/form-data; boundary=B"),
    *("Content-Encoding: gzip", "Content-Encoding: deflate", "Content-Encoding: br"),
    *("Expect: 100-continue", "Expect: other", "Connection: close", "Connection: keep-alive"),
    *("Connection: Upgrade\r\nUpgrade: h2c", "X-Timeout-Ms: 50", "X-Timeout-Ms: 1e9"),
    *("X-Priority: low", "X-Request-Id: a\x01b", "X-Api-Key: \xff", "traceparent: 00-a-b-01"),
    *("Accept: application/msgpack", "X-Tenant: a", "Cookie: a=b", "X: " + "y" * 8180),
    *("Content-Length: 3", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked"),
    *("Host: other", " folded", "X-A:b", "X-A : b", ": b", "Trailer: X-T"),
)
BODIES = (b"", b"1", b'{"a": [1, 2.5, null]}', b"\x00\xff" * 300, b"x" * 70_000)


class Surface:
    """The target; one step is one connection."""

    name = "http"

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._mutator = Mutator(rng)
        self._steps = 0
        self._answers = 0
        self._stack = ExitStack()
        mill = self._stack.enter_context(Deployment())
        self._stack.callback(Path(mill.address.removeprefix("ipc://")).unlink)
        self._stack.enter_context(FakeBroker(mill.address))
        self._gateway: Role = mill.gateway("--max-body", "64KiB", "--header-timeout", "2")
        mill.wait_ready()
        self._port = mill.port
        self._good = self._stack.enter_context(RawClient(mill.port))
        self._process = psutil.Process(self._gateway.pid)
        self._descriptors = 0
        self._memory_bytes = 0

    def close(self) -> None:
        """Stop the processes, which must end as they should."""
        self._stack.close()

    def step(self) -> int:
        """One connection, and now and then a good request on another."""
        rng = self._rng
        data = b"".join(self._request() for _ in range(rng.choice((1, 1, 1, 2, 3))))
        if rng.random() < 0.7:
            data = self._mutator.data(data)
        try:
            self._check(self._exchange(data))
        except Exception as error:
            raise Finding(f"{data[:4000]!r}") from error
        if self._steps % GOOD_EVERY == 0:
            self._ask()
        if self._steps == WARM_STEPS:
            self._remember()
        self._steps += 1
        return 1

    def finish(self) -> dict[str, str]:
        """Wait until nothing is held, and compare with the beginning."""
        if not self._descriptors:
            self._remember()
        self._ask()
        # The sweep ends connections that linger, within a second or so.
        wait_until(lambda: self._process.num_fds() <= self._descriptors, 15, "descriptors are left")
        held = {name: value for name, value in self._metrics().items() if value}
        if held:
            raise Finding(f"the gateway holds {held}")
        if "Traceback" in self._gateway.output or "event=bug" in self._gateway.output:
            raise Finding(f"a bug: {self._gateway.tail()}")
        grown_bytes = self._process.memory_info().rss - self._memory_bytes
        if grown_bytes > GROWTH_BYTES:
            raise Finding(f"the gateway grew by {grown_bytes:,} bytes")
        return {
            "memory": f"{grown_bytes / 2**20:+.1f} MiB",
            "descriptors": f"{self._process.num_fds() - self._descriptors:+}",
            "answers": f"{self._answers / max(self._steps, 1):.2f} each",
        }

    def _remember(self) -> None:
        self._descriptors = self._process.num_fds()
        self._memory_bytes = self._process.memory_info().rss

    # -------------------------------------------------------------- one connection

    def _request(self) -> bytes:
        """One that may be right, and one thing wrong with it, or a few."""
        rng = self._rng
        body = rng.choice(BODIES)
        lines = [f"{rng.choice(METHODS)} {rng.choice(TARGETS)} HTTP/1.{rng.choice('1110')}"]
        lines += ["Host: t", *rng.sample(HEADERS, rng.choice((0, 0, 1, 1, 2, 6)))]
        if "Content-Encoding: gzip" in lines and rng.random() < 0.8:
            body = gzip.compress(body * rng.randint(1, 40), mtime=0)
        if rng.random() < 0.25:
            lines.append("Transfer-Encoding: chunked")
            size = rng.randint(1, 5000)
            pieces = [body[at : at + size] for at in range(0, len(body), size)]
            body = b"".join(b"%x;a=b\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            body += rng.choice((b"0\r\n\r\n", b"0\r\nX-T: 1\r\n\r\n"))
        elif body or rng.random() < 0.5:
            lie = rng.choice((0, 0, 0, 0, 0, 1, -1, 1 << 40))
            lines.append(f"Content-Length: {len(body) + lie}")
        head = "\r\n".join(lines) + "\r\n\r\n"
        return head.encode("latin-1") + body

    def _exchange(self, data: bytes) -> bytes:
        """Send it, in some way, and return all that comes back until the gateway hangs up."""
        rng = self._rng
        received = b""
        with socket.create_connection(("127.0.0.1", self._port), timeout=ANSWERED_S) as raw:
            with suppress(ConnectionError):  # it may be hung up on before all of it is sent
                cut = rng.choice((0, 0, rng.randint(0, len(data))))
                raw.sendall(data[:cut])
                raw.sendall(data[cut:])
                if rng.random() < 0.05:
                    return b""  # and hang up without a look at the answer
            with suppress(OSError):  # which says that it is not connected any more
                raw.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while piece := raw.recv(1 << 16):
                    received += piece
        return received

    def _check(self, received: bytes) -> None:
        """AssertionError unless it is nothing, or whole answers."""
        while received:
            self._answers += 1
            head, found, received = received.partition(b"\r\n\r\n")
            status_line, *lines = head.decode("latin-1").split("\r\n")
            assert found, f"no whole head: {head!r}"
            assert status_line.startswith("HTTP/1.1 "), status_line
            status = int(status_line[9:12])
            if status == 100:
                continue
            parts = (line.partition(": ") for line in lines)
            headers = {name.lower(): value for name, _, value in parts}
            size = int(headers["content-length"])
            if not received or received.startswith(b"HTTP/1.1 "):
                continue  # of HEAD, or of nothing
            body, received = received[:size], received[size:]
            assert len(body) == size, f"{size} bytes were promised, {len(body)} came"
            if status >= 400:
                error = json.loads(body)["error"]
                assert error["request_id"] == headers["x-request-id"], head

    # -------------------------------------------------------------- a good client

    def _ask(self) -> None:
        self._good.send_request("POST", "/pipelines/digits", b"good %d" % self._steps)
        response = self._good.read_response()
        if (response.status, response.body) != (200, b"good %d" % self._steps):
            raise Finding(f"a good request got {response}")

    def _metrics(self) -> dict[str, float]:
        """What is held, by the gateway's own account; the connection that asks is not counted."""
        self._good.send_request("GET", "/metrics")
        text = self._good.read_response().body.decode()
        lines = [line.rpartition(" ") for line in text.splitlines() if line[0] != "#"]
        held = {
            name: float(value) for name, _, value in lines if "waiting" in name or "held" in name
        }
        connections = next(float(v) for name, _, v in lines if name.endswith("_connections"))
        return {**held, "connections": connections - 1}
