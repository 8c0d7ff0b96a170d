"""Which requests get a line in the log, and which are summed up."""

import logging
import os

import pytest

from broker.wire import log
from gateway.journal import MAX_LINES_PER_S, SUMMARY_EVERY_S, Journal


def end(journal: Journal, status: int, duration_s: float = 0.01, code: str = "") -> None:
    """One request ends."""
    journal.ended(
        pipeline="p",
        version="v",
        status=status,
        code=code,
        request_id="id",
        duration_s=duration_s,
        detail="",
    )


def test_failed_and_slow_requests_have_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    journal = Journal(0.0, slow_s=1.0, log_all=False)
    for status in (200, 400, 404, 499):
        end(journal, status)
    assert not caplog.records
    end(journal, 500, code="worker_error")
    end(journal, 504, code="deadline_exceeded")
    end(journal, 200, duration_s=1.5)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]
    assert caplog.messages[0] == (
        "event=answered pipeline=p version=v status=500 request_id=id ms=10 "
        'code=worker_error detail=""'
    )


def test_floods_are_summed_up(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(0.0, slow_s=1.0, log_all=False)
    for _ in range(1000):
        end(journal, 429, code="queue_full")
        end(journal, 500, code="worker_error")
    assert len(caplog.records) == MAX_LINES_PER_S
    caplog.clear()
    journal.tick(SUMMARY_EVERY_S)
    assert caplog.messages == [
        "event=refused pipeline=p status=429 code=queue_full requests=1000 seconds=5",
        "event=refused pipeline=p status=500 code=worker_error "
        f"requests={1000 - MAX_LINES_PER_S} seconds=5",
    ]
    caplog.clear()
    end(journal, 500)
    assert len(caplog.records) == 1


def test_the_access_log_has_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    journal = Journal(0.0, slow_s=1.0, log_all=True)
    end(journal, 200)
    end(journal, 429)
    journal.page(method="GET", target="/livez", status=200)
    assert len(caplog.records) == 3


def test_values_from_clients_stay_one_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handlers = {name: logging.getLogger(name).handlers[:] for name in ("asyncio", log.logger.name)}
    log.configure(role="gateway")
    try:
        log.info("answered", target='/a b"\n\udcff', ms=1.23456)
        try:
            raise ValueError("ours")
        except ValueError:
            log.bug("oops")
    finally:
        for name, before in handlers.items():
            logging.getLogger(name).handlers[:] = before
            logging.getLogger(name).propagate = True
    first, second, *trace = capsys.readouterr().err.splitlines()
    who = f"role=gateway pid={os.getpid()}"
    assert first.endswith(f' level=info {who} event=answered target="/a b\\"\\n\\udcff" ms=1.23456')
    assert second.endswith(f" level=error {who} event=oops")
    assert trace[-1] == "ValueError: ours"
