"""The log of this process in a file, as long as a test needs it."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.wire import log


@contextmanager
def logging_to(path: Path, form: str, level: str = "info") -> Iterator[None]:
    """Sets the log up, and puts everything back; `configure` is the test's to call."""
    loggers = [logging.getLogger(name) for name in (None, "asyncio", log.logger.name)]
    before = [(each, each.handlers[:], each.level, each.propagate) for each in loggers]
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    log.setup(form, level, fd)
    try:
        yield
    finally:
        log.close()
        log.state.__init__()  # type: ignore[misc]  # as it was at the start
        os.close(fd)
        for each, handlers, level_before, propagate in before:
            each.handlers[:] = handlers
            each.setLevel(level_before)
            each.propagate = propagate
