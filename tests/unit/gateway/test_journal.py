"""Which requests get a line in the log, and which are summed up."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec import Struct

from broker.wire import log
from gateway.journal import (
    MAX_LINES_PER_S,
    SUMMARY_EVERY_S,
    WRITE_S,
    Ended,
    Gathering,
    Journal,
    PageLine,
)
from tests.logs import logging_to


class Book:
    """A journal, and the lines that it has written."""

    def __init__(self, *, log_all: bool = False) -> None:
        self.lines: list[tuple[int, Struct]] = []
        self.journal = Journal(0.0, slow_s=1.0, log_all=log_all, put=self._put)

    def _put(self, level: int, event: str, line: Struct) -> None:
        assert event == "answered"
        self.lines.append((level, line))

    def end(self, status: int, duration_s: float = 0.01, code: str = "") -> None:
        """One request ends."""
        if self.journal.wants(pipeline="p", status=status, code=code, duration_s=duration_s):
            self.journal.ended(Ended("p", "v", status, "id", duration_s * 1000.0, code=code))


def test_failed_and_slow_requests_have_lines() -> None:
    book = Book()
    for status in (200, 400, 404, 499):
        book.end(status)
    assert not book.lines
    book.end(500, code="worker_error")
    book.end(504, code="deadline_exceeded")
    book.end(200, duration_s=1.5)
    assert [level for level, _ in book.lines] == [log.WARNING, log.WARNING, log.INFO]
    assert book.lines[0][1] == Ended("p", "v", 500, "id", 10.0, code="worker_error")


def test_floods_are_summed_up(caplog: pytest.LogCaptureFixture) -> None:
    book = Book()
    for _ in range(1000):
        book.end(429, code="queue_full")
        book.end(500, code="worker_error")
    assert len(book.lines) == MAX_LINES_PER_S
    book.journal.tick(SUMMARY_EVERY_S)
    assert caplog.messages == [
        "event=refused pipeline=p status=429 code=queue_full requests=1000 seconds=5",
        "event=refused pipeline=p status=500 code=worker_error "
        f"requests={1000 - MAX_LINES_PER_S} seconds=5",
    ]
    book.end(500)
    assert len(book.lines) == MAX_LINES_PER_S + 1


def test_the_access_log_has_all() -> None:
    book = Book(log_all=True)
    for _ in range(MAX_LINES_PER_S + 1):
        book.end(200)
        book.end(429)
        book.end(500)
    assert len(book.lines) == 3 * (MAX_LINES_PER_S + 1)


def test_the_access_log_has_pages_without_what_follows_their_path() -> None:
    book = Book(log_all=True)
    book.journal.page(method="GET", target="/readyz?pipeline=p&key=secret", status=200)
    assert book.lines == [(log.INFO, PageLine("GET", "/readyz", 200))]


def test_lines_of_a_moment_are_written_together(tmp_path: Path) -> None:
    path = tmp_path / "log"

    async def put() -> str:
        loop = asyncio.get_running_loop()
        gathering = Gathering()
        for status in (200, 404):
            gathering.put(log.INFO, "answered", PageLine("GET", "/\udcff", status))
        early = path.read_text()
        behind = asyncio.Event()
        loop.call_later(2 * WRITE_S, behind.set)
        await behind.wait()
        return early

    with logging_to(path, "json"):
        log.configure(role="gateway")
        assert asyncio.run(put()) == ""
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["status"] for line in lines] == [200, 404]
    assert lines[0]["target"] == "/\\udcff"  # a client's bytes that are no text
