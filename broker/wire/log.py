"""One line per event on stderr: how every process of a deployment writes its log.

Each process says once how (`setup`) and who it is (`configure`). Writing never waits for whoever
reads: what a slow reader leaves no room for is dropped and counted. Events go through the standard
library's logging, so that what libraries say stands among them; `put` is for the one kind of line
that comes with each request, and goes past it.
"""

import atexit
import contextlib
import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping

from msgspec import Struct

from broker.wire.log_lines import (
    LEVELS,
    PRINTED,
    Event,
    Fields,
    Format,
    Lines,
    level_name,
    lines_in,
)
from broker.wire.outlet import Outlet

DEBUG, INFO, WARNING, ERROR = LEVELS.values()
FORMATS = ("auto", *Format)
LEVEL_NAMES = tuple(LEVELS)
FAREWELL_S = 0.5
"""How long the end of a process may wait for the reader of its last lines."""
_OTHERS = ("asyncio", "opentelemetry", "urllib3")
_FORMAT = "MILLSTREAM_LOG_FORMAT"
_LEVEL = "MILLSTREAM_LOG_LEVEL"

logger = logging.getLogger("millstream")


def setup(form: str = "auto", level: str = "info", fd: int = 2) -> None:
    """How to write, and where: before `configure`. `form` is one of FORMATS, `level` of
    LEVEL_NAMES."""
    state.form = form
    state.level = LEVELS[level]
    state.fd = fd


def setup_from(environ: Mapping[str, str], fd: int = 2) -> None:
    """As the process was set up that has made this environment with `environment`."""
    setup(environ.get(_FORMAT, "auto"), environ.get(_LEVEL, "info"), fd)


def environment() -> dict[str, str]:
    """Tells processes that this one starts how to write theirs."""
    return {_FORMAT: state.form, _LEVEL: level_name(state.level)}


def configure(**fields: str | int) -> None:
    """Write to stderr from now on, and what the libraries that we use say; `fields` say who we are.

    May be called again, when more is known.
    """
    state.open(fields)
    for each in (logger, *map(logging.getLogger, _OTHERS)):
        each.handlers[:] = [state.handler]
        each.propagate = False  # what scripts do with the root logger is theirs


def adopt_scripts(fields_now: Callable[[], Fields]) -> None:
    """What scripts and their libraries log goes to our log, with these fields, as long as they send
    it nowhere else. Behind `configure`.
    """
    root = logging.getLogger()
    state.handler.fields_now = fields_now
    root.addHandler(state.handler)
    root.setLevel(state.level)
    state.has_scripts = True


def switch_by_signal(then: Callable[[], None] = lambda: None) -> None:
    """SIGUSR2 turns debug lines on, and off again. Call it from the main thread."""

    def switch(_signum: int, _frame: object) -> None:
        state.is_verbose = not state.is_verbose
        state.apply_level()
        then()

    signal.signal(signal.SIGUSR2, switch)
    signal.siginterrupt(signal.SIGUSR2, False)  # calls of native code go on as if nothing was


def is_on(level: int) -> bool:
    """Whether lines of this level are written."""
    return logger.isEnabledFor(level)


def debug(event: str, **fields: object) -> None:
    """Something that matters only to one who looks for something."""
    _write(DEBUG, event, "", fields)


def info(event: str, *, trace: str = "", **fields: object) -> None:
    """Something that happened in order. `trace` follows on lines of its own."""
    _write(INFO, event, trace, fields)


def warning(event: str, *, trace: str = "", **fields: object) -> None:
    """Something that a person may want to look into."""
    _write(WARNING, event, trace, fields)


def error(event: str, *, trace: str = "", **fields: object) -> None:
    """Something that failed."""
    _write(ERROR, event, trace, fields)


def bug(event: str, **fields: object) -> None:
    """The exception that is being handled is our own fault: its traceback follows."""
    _write(ERROR, event, traceback.format_exc(), fields)


def relay(text: str, **who: str | int) -> None:
    """A line that another process has written, whoever that is."""
    if logger.isEnabledFor(INFO):
        logger.log(INFO, "%s", Event(PRINTED, {"text": text}, "", who))


def put(level: int, event: str, record: Struct) -> None:
    """A line that waits for `write_out`: cheap, for what comes with each request."""
    if level >= state.level_now and state.lines is not None:
        state.waiting.append(state.lines.record(time.time(), level, event, record))


def write_out() -> None:
    """Write all that `put` was given, at once."""
    waiting, state.waiting = state.waiting, []
    if waiting:
        state.write(b"".join(waiting))


def flush() -> None:
    """Now and then: what a slow reader had no room for."""
    state.write(b"")


def close() -> None:
    """Before an end that runs no exit handlers: write what there is, and give a slow reader a
    moment.
    """
    state.close()


def dropped() -> int:
    """Lines that were lost to slow readers, since this process began."""
    return state.dropped + state.dropped_of_late


def _write(level: int, event: str, trace: str, fields: dict[str, object]) -> None:
    if logger.isEnabledFor(level):
        logger.log(level, "%s", Event(event, fields, trace))


class _Handler(logging.Handler):
    """Writes what the standard library brings, ours and others'."""

    def __init__(self) -> None:
        super().__init__()
        self.fields_now: Callable[[], Fields] = dict

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self._line(record)
        except Exception:  # of a record that cannot be made text of
            self.handleError(record)
        else:
            state.write(line)

    def _line(self, record: logging.LogRecord) -> bytes:
        assert state.lines is not None
        event = record.args[0] if type(record.args) is tuple and record.args else None
        if type(event) is Event:
            return state.lines.line(record.created, record.levelno, event)
        fields = {"logger": record.name, **self.fields_now()}
        trace = ""
        if record.exc_info and record.exc_info[0] is not None:
            trace = "".join(traceback.format_exception(*record.exc_info))
        event = Event(record.getMessage(), fields, trace)
        return state.lines.line(record.created, record.levelno, event)


class _State:
    """How this process writes."""

    def __init__(self) -> None:
        self.form = "auto"
        self.level = INFO
        self.fd = 2
        self.is_verbose = False
        self.has_scripts = False
        self.level_now = INFO
        self.lines: Lines | None = None
        self.waiting: list[bytes] = []
        self.dropped = 0
        self.handler = _Handler()
        self._outlet: Outlet | None = None
        self._outlet_fd = -1
        self._lock = threading.Lock()

    def open(self, fields: Mapping[str, str | int]) -> None:
        if self._outlet is None or self._outlet_fd != self.fd:
            if self._outlet is None:
                atexit.register(self.close)
            else:
                self._outlet.close(0.0)
            self._outlet = Outlet(self.fd)
            self._outlet_fd = self.fd
        self.lines = _lines(self.form, self.fd, {**fields, "pid": os.getpid()})
        self.apply_level()

    def apply_level(self) -> None:
        self.level_now = DEBUG if self.is_verbose else self.level
        logger.setLevel(self.level_now)
        if self.has_scripts:
            logging.getLogger().setLevel(self.level_now)

    @property
    def dropped_of_late(self) -> int:
        """Lines of which the log itself does not tell yet."""
        return 0 if self._outlet is None else self._outlet.dropped

    def write(self, data: bytes) -> None:
        outlet = self._outlet
        if outlet is None:
            return
        with self._lock:
            if not data:
                outlet.flush()
            else:
                outlet.write(data)
            lost = outlet.dropped
            if lost and outlet.flush():
                outlet.dropped = 0
                self.dropped += lost
                assert self.lines is not None
                event = Event("log lines dropped", {"lines": lost})
                outlet.write(self.lines.line(time.time(), WARNING, event))

    def close(self) -> None:
        write_out()
        if self._outlet is not None:
            self._outlet.close(FAREWELL_S)
            self._outlet = None


state = _State()


def _lines(form: str, fd: int, who: Fields) -> Lines:
    """`auto`: for people where a terminal is, or honcho, whose user sits before one."""
    is_terminal = False
    with contextlib.suppress(OSError):
        is_terminal = os.isatty(fd)
    has_honcho = "HONCHO_PROCESS_NAME" in os.environ
    if form == "auto":
        form = Format.HUMAN if is_terminal or has_honcho else Format.JSON
    return lines_in(
        Format(form),
        who,
        has_time=not has_honcho or is_terminal,
        is_coloured=is_terminal and "NO_COLOR" not in os.environ,
    )
