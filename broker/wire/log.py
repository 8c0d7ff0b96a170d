"""One line per event on stderr, as key=value: how every process of a deployment writes its log.

Opens nothing and decides nothing; each process says once, with `configure`, who it is.
"""

import json
import logging
import os
import sys
import time
import traceback

logger = logging.getLogger("millstream")


def configure(**fields: str | int) -> None:
    """Send our log to stderr, and what asyncio says of our bugs; `fields` stand in every line.

    May be called again, when more is known.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(fields))
    for each in (logger, logging.getLogger("asyncio")):
        each.handlers[:] = [handler]
        each.propagate = False  # what scripts do with the root logger is theirs
    logger.setLevel(logging.INFO)


def info(event: str, *, trace: str = "", **fields: object) -> None:
    """Something that happened in order. `trace` follows on lines of its own."""
    _write(logging.INFO, event, trace, fields)


def warning(event: str, *, trace: str = "", **fields: object) -> None:
    """Something that a person may want to look into."""
    _write(logging.WARNING, event, trace, fields)


def error(event: str, *, trace: str = "", **fields: object) -> None:
    """Something that failed."""
    _write(logging.ERROR, event, trace, fields)


def bug(event: str, **fields: object) -> None:
    """The exception that is being handled is our own fault: its traceback follows."""
    _write(logging.ERROR, event, traceback.format_exc(), fields)


def _write(level: int, event: str, trace: str, fields: dict[str, object]) -> None:
    if not logger.isEnabledFor(level):
        return
    line = " ".join([f"event={_quote(event)}", *(f"{k}={_quote(v)}" for k, v in fields.items())])
    if trace:
        line += "\n" + trace.rstrip("\n")
    logger.log(level, "%s", line)


def _quote(value: object) -> str:
    """The value as one word: quoted where it has spaces, quotes or line ends."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if text and not any(char.isspace() or char in '"=\\' for char in text) and text.isprintable():
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


class _Formatter(logging.Formatter):
    def __init__(self, fields: dict[str, str | int]) -> None:
        super().__init__()
        self._fields = " ".join(f"{key}={_quote(value)}" for key, value in fields.items())

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return (
            f"time={moment}.{int(record.msecs):03d}Z level={record.levelname.lower()} "
            f"{self._fields} pid={os.getpid()} {record.getMessage()}"
        )
