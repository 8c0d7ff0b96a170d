"""The broker's log: one event a line on stderr, as key=value."""

import logging
import sys
import time

import msgspec

_logger = logging.getLogger("millstream.broker")


def configure() -> None:
    """Send the log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    _logger.handlers[:] = [handler]
    _logger.setLevel(logging.INFO)
    _logger.propagate = False


def info(event: str, **fields: object) -> None:
    """Something that happened in order."""
    _logger.info("%s", _line(event, fields))


def warning(event: str, **fields: object) -> None:
    """Something that a person may want to look into."""
    _logger.warning("%s", _line(event, fields))


def to_json(value: object) -> bytes:
    """Data for a program to read."""
    return msgspec.json.encode(value)


def _line(event: str, fields: dict[str, object]) -> str:
    return " ".join(
        [f"event={event}", *(f"{key}={_quote(value)}" for key, value in fields.items())]
    )


def _quote(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if text and text.isprintable() and not any(char.isspace() or char in '"=\\' for char in text):
        return text
    return msgspec.json.encode(text).decode()


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        level = record.levelname.lower()
        return f"time={moment}.{int(record.msecs):03d}Z level={level} {record.getMessage()}"
