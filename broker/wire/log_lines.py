"""How a line of the log looks: JSON for machines, columns for people, key=value for both.

Pure: an event with its fields goes in, bytes that end with a line end come out. Whatever a value
holds, it stays one word of one line; only a traceback, in the forms for people, follows on lines of
its own.
"""

import json
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import ClassVar, TypeAlias

import msgspec
from msgspec import Struct

Fields: TypeAlias = Mapping[str, object]

MOST_TEXT_CHARS = 16384
"""A longer text, such as one that a plug-in logs, is cut."""

PRINTED = "printed"
"""The event of a line that a process has written by itself, which is its field `text`."""

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
"""The levels by name, with their numbers in the standard library."""
_NAMES = {number: name for name, number in LEVELS.items()} | {50: "error"}


class Format(StrEnum):
    """What may be asked for."""

    HUMAN = "human"
    JSON = "json"
    LOGFMT = "logfmt"


def level_name(level: int) -> str:
    """The nearest level at or below this number."""
    return _NAMES.get(level) or _NAMES[max(10, min(40, level // 10 * 10))]


class Event:
    """What happened. `trace` is a traceback, or ""; `who` is given where it was somebody else."""

    __slots__ = ("fields", "name", "trace", "who")

    def __init__(
        self, name: str, fields: Fields, trace: str = "", who: Fields | None = None
    ) -> None:
        self.name = name
        self.fields = fields
        self.trace = trace
        self.who = who

    def __str__(self) -> str:
        """As key=value, and the traceback on lines below."""
        text = f"event={quote(self.name)}"
        if self.fields:
            text += f" {pairs(self.fields)}"
        return f"{text}\n{self.trace.rstrip()}" if self.trace else text


class Lines:
    """One form of lines. `who` stands in every line, unless the event brings its own."""

    def __init__(self, who: Fields) -> None:
        self.who = who

    @abstractmethod
    def line(self, moment_s: float, level: int, event: Event) -> bytes:
        """One event; `moment_s` is since 1970."""

    def record(self, moment_s: float, level: int, event: str, record: Struct) -> bytes:
        """The same for a Struct of fields, of which those with their default are left out."""
        return self.line(moment_s, level, Event(event, _fields_of(record)))


class JsonLines(Lines):
    """One JSON object a line: `time`, `level`, who, `event`, and the fields."""

    def __init__(self, who: Fields) -> None:
        super().__init__(who)
        self._encode = msgspec.json.Encoder(enc_hook=str).encode
        self._who = self._encode(dict(who))[1:-1]
        self._heads: dict[tuple[int, str], bytes] = {}
        self._clock = _Clock("%Y-%m-%dT%H:%M:%S", "Z", time.gmtime)

    def line(self, moment_s: float, level: int, event: Event) -> bytes:
        """See the base class."""
        whole: dict[str, object] = {
            "time": self._clock.text(moment_s),
            "level": level_name(level),
            **(self.who if event.who is None else event.who),
            "event": event.name,
            **event.fields,
        }
        if event.trace:
            whole["trace"] = event.trace
        return self._encode({key: _plain(value) for key, value in whole.items()}) + b"\n"

    def record(self, moment_s: float, level: int, event: str, record: Struct) -> bytes:
        """See the base class: a microsecond, for there may be one for each request."""
        head = self._heads.get((level, event))
        if head is None:
            who = self._who + b"," if self._who else b""
            text = f'","level":"{level_name(level)}",'.encode()
            head = text + who + b'"event":' + self._encode(event) + b","
            self._heads[level, event] = head
        moment = self._clock.text(moment_s).encode()
        try:
            return b'{"time":"' + moment + head + self._encode(record)[1:] + b"\n"
        except UnicodeEncodeError:  # bytes of a client that are no text
            return super().record(moment_s, level, event, record)


class LogfmtLines(Lines):
    """key=value, separated by spaces, as Heroku and Loki know them; a traceback follows."""

    def __init__(self, who: Fields) -> None:
        super().__init__(who)
        self._clock = _Clock("%Y-%m-%dT%H:%M:%S", "Z", time.gmtime)

    def line(self, moment_s: float, level: int, event: Event) -> bytes:
        """See the base class."""
        parts = [f"time={self._clock.text(moment_s)} level={level_name(level)}"]
        who = self.who if event.who is None else event.who
        parts += [pairs(who)] if who else []
        text = f"{' '.join(parts)} {event}\n"
        return text.encode("utf-8", "backslashreplace")


class HumanLines(Lines):
    """Columns: the time of day, level, who, what, and the rest as key=value; a traceback follows.

    `has_time` is False where whoever shows the lines puts the time before them, as honcho does.
    """

    _COLOURS: ClassVar = {"debug": "2", "info": "32", "warning": "33", "error": "31"}

    def __init__(self, who: Fields, *, has_time: bool, is_coloured: bool) -> None:
        super().__init__(who)
        self._has_time = has_time
        self._is_coloured = is_coloured
        self._clock = _Clock("%H:%M:%S", "", time.localtime)

    def line(self, moment_s: float, level: int, event: Event) -> bytes:
        """See the base class."""
        name = level_name(level)
        what, fields = event.name, event.fields
        if what == PRINTED:
            what, fields = str(fields["text"]), {}
        columns = [self._paint(f"{name:<7}", self._COLOURS[name])]
        if self._has_time:
            columns.insert(0, self._paint(self._clock.text(moment_s), "2"))
        columns.append(
            self._paint(f"{short_name(self.who if event.who is None else event.who):<13}", "36")
        )
        what = _printable(_cut(what))
        columns.append(self._paint(what, "1") if level >= LEVELS["warning"] else what)
        if fields:
            columns.append(self._paint(pairs(fields), "2"))
        text = " ".join(columns) + "\n"
        if event.trace:
            text += "".join(f"    {_printable(each)}\n" for each in event.trace.splitlines())
        return text.encode("utf-8", "backslashreplace")

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._is_coloured else text


def lines_in(form: Format, who: Fields, *, has_time: bool, is_coloured: bool) -> Lines:
    """Lines of this form; the last two matter for people alone."""
    if form is Format.JSON:
        return JsonLines(who)
    if form is Format.LOGFMT:
        return LogfmtLines(who)
    return HumanLines(who, has_time=has_time, is_coloured=is_coloured)


def pairs(fields: Fields) -> str:
    """Fields as key=value."""
    return " ".join(f"{key}={quote(value)}" for key, value in fields.items())


def quote(value: object) -> str:
    """The value as one word: quoted where it has spaces, quotes or line ends."""
    if isinstance(value, list | tuple):
        return ",".join(quote(each) for each in value)
    text = f"{value:.6g}" if isinstance(value, float) else _cut(str(value))
    if text and not any(char.isspace() or char in '"=\\' for char in text) and text.isprintable():
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def short_name(who: Fields) -> str:
    """Who writes, in few letters: `gateway`, or the stage and index of a worker, `infer.0`."""
    stage, index = who.get("stage"), who.get("index")
    if stage is not None and index is not None:
        return f"{stage}.{index}"
    return str(who.get("role", ""))


class _Clock:
    """Moments as text, to the millisecond; the same text for all of one."""

    def __init__(self, form: str, end: str, split: Callable[[float], time.struct_time]) -> None:
        self._form = form
        self._end = end
        self._split = split
        self._second = -1
        self._whole = ""  # the seconds
        self._millisecond = -1
        self._text = ""

    def text(self, moment_s: float) -> str:
        millisecond = int(moment_s * 1000.0)
        if millisecond == self._millisecond:
            return self._text
        self._millisecond = millisecond
        second, rest = divmod(millisecond, 1000)
        if second != self._second:
            self._second = second
            self._whole = time.strftime(self._form, self._split(second))
        self._text = f"{self._whole}.{rest:03d}{self._end}"
        return self._text


def _fields_of(record: Struct) -> dict[str, object]:
    kind = type(record)
    defaults = dict(zip(kind.__struct_fields__[::-1], kind.__struct_defaults__[::-1], strict=False))
    found = msgspec.structs.asdict(record)
    return {key: value for key, value in found.items() if value != defaults.get(key, _NOTHING)}


_NOTHING = object()


def _plain(value: object) -> object:
    """What JSON can carry: texts without lone surrogates and not too long, short numbers."""
    if isinstance(value, str):
        text = _cut(value)
        return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if value is None or isinstance(value, int | bool):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return _plain(str(value))


def _cut(text: str) -> str:
    if len(text) <= MOST_TEXT_CHARS:
        return text
    return f"{text[:MOST_TEXT_CHARS]}[… {len(text) - MOST_TEXT_CHARS} more]"


def _printable(text: str) -> str:
    """Nothing that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\t" else ascii(char)[1:-1] for char in text
    )
