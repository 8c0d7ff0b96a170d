"""One line per event."""

import contextlib
import io
import os
from collections.abc import Callable, Iterator

import pytest

from broker.wire import log


@pytest.fixture
def lines() -> Iterator[Callable[[], list[str]]]:
    """What has been written since the log was configured."""
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        log.configure(role="worker", stage="infer", index=2)
    yield lambda: err.getvalue().splitlines()
    log.logger.handlers.clear()


def test_a_line_is_key_and_value(lines: Callable[[], list[str]]) -> None:
    log.info("worker ready", size=8, run_s=0.12345678, plugin="Infer")
    (line,) = lines()
    assert line.endswith(
        f'level=info role=worker stage=infer index=2 pid={os.getpid()} event="worker ready" '
        "size=8 run_s=0.123457 plugin=Infer"
    )


def test_nothing_breaks_the_line(lines: Callable[[], list[str]]) -> None:
    log.error("x", reason='say "no"\nlevel=info forged=1', empty="", odd="a\x1b[31m")
    (line,) = lines()
    assert r'reason="say \"no\"\nlevel=info forged=1"' in line
    assert 'empty=""' in line
    assert "\x1b" not in line


def test_a_trace_follows(lines: Callable[[], list[str]]) -> None:
    log.warning("x", trace="Traceback\n  line\n")
    assert lines()[1:] == ["Traceback", "  line"]
