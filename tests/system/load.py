"""Clients that send one request after another, and a tally of all that can become of one.

Each client is a thread with a keep-alive connection of its own, and pauses after each answer: what
is shown under load is shown with some of the processor left for those who start meanwhile, and for
other tests. Knows HTTP and nothing else.
"""

import http.client
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NamedTuple, Self

from tests.system.client import Client, HttpAnswer

RATE = 300.0
"""Requests a second, of all clients together."""
FULL = 3000.0
"""More than any of these deployments answers: where the load itself is what matters."""


class Request(NamedTuple):
    """What to send, and whether a 200 to it is the right one."""

    body: bytes
    headers: Mapping[str, str]
    is_right: Callable[[HttpAnswer], bool]


class Load:
    """`with Load(...) as load:` sends all the while. Read the tally after the end of the block."""

    def __init__(
        self,
        port: int,
        path: str,
        *,
        clients: int,
        make: Callable[[int], Request],
        rate: float = RATE,
    ) -> None:
        """`make` is given the number of the request, which counts through all clients. There are
        `rate` of them a second at most, where answers take no time.
        """
        self._pause_s = clients / rate
        self._port = port
        self._path = path
        self._make = make
        self._enough = threading.Event()
        self._lock = threading.Lock()
        self._sent = 0
        self._threads = [threading.Thread(target=self._client) for _ in range(clients)]
        self.answers: Counter[str] = Counter()
        """Complete answers: "200", or the status and the error's code."""
        self.wrong: list[HttpAnswer] = []
        """Answers with 200 that were not the right ones."""
        self.cut: list[str] = []
        """Requests that went out and got no complete answer, and what happened instead."""
        self.refused = 0
        """Connections that nobody took; a client ends with its first."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a client still waits"

    @property
    def answered(self) -> int:
        """Complete answers so far."""
        return sum(self.answers.values())

    def _client(self) -> None:
        with Client(self._port) as client:
            while not self._enough.wait(self._pause_s):
                with self._lock:
                    self._sent += 1
                    number = self._sent
                try:
                    client.connect()
                except OSError:
                    self.refused += 1
                    return
                self._send(client, self._make(number))

    def _send(self, client: Client, request: Request) -> None:
        try:
            answer = client.post(self._path, request.body, request.headers)
        except (OSError, http.client.HTTPException) as error:
            self.cut.append(repr(error))
            client.close()
            return
        with self._lock:
            self.answers[f"{answer.status} {answer.code}".strip()] += 1
        if answer.status == 200 and not request.is_right(answer):
            self.wrong.append(answer)
