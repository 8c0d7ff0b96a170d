"""What happened in the last hour, for people who look at a running deployment.

Whatever the log is told of goes in here, and what only time shows: that requests began to be
refused, and that this is over.
"""

from collections import deque
from collections.abc import Mapping

from msgspec import Struct

from broker.core.events import Note

KEPT_S = 3600.0
MOST_ENTRIES = 500

CALM_STEPS = 5
"""So many seconds without a refusal end a time of refusals."""


class Happening(Struct, frozen=True):
    """`number` counts these; `at` is in seconds since 1970."""

    number: int
    at: float
    what: str
    fields: dict[str, str | int | float]


class Diary:
    """Times are of the broker's own clock; `wall_offset_s` makes those of the wall of them."""

    __slots__ = ("_count", "_entries", "_refusing", "_wall_offset_s")

    def __init__(self, wall_offset_s: float) -> None:
        self._wall_offset_s = wall_offset_s
        self._entries: deque[Happening] = deque(maxlen=MOST_ENTRIES)
        self._count = 0
        self._refusing: dict[str, _Refusing] = {}  # by pipeline

    def note(self, note: Note, now: float) -> None:
        """This was told to the log."""
        self._count += 1
        at = round(now + self._wall_offset_s, 3)
        self._entries.append(Happening(self._count, at, note.what, note.fields))

    def refused(self, pipeline: str, refused: Mapping[str, int], now: float) -> None:
        """How many requests of a pipeline were refused in all by now, by code; once a second."""
        total = sum(refused.values())
        known = self._refusing.get(pipeline)
        if known is None:
            known = self._refusing[pipeline] = _Refusing(total)
        if total == known.total:
            known.calm += 1
            if known.since is not None and known.calm >= CALM_STEPS:
                fields: dict[str, str | int | float] = {
                    "pipeline": pipeline,
                    "requests": total - known.before,
                    "seconds": round(now - known.since - known.calm),
                }
                known.since = None
                self.note(Note("refusing_ended", fields), now)
            if known.since is None:
                known.codes = dict(refused)
            return
        if known.since is None:
            known.since, known.before = now, known.total
            codes = ", ".join(
                sorted(code for code, count in refused.items() if count > known.codes.get(code, 0))
            )
            self.note(Note("refusing_began", {"pipeline": pipeline, "code": codes}), now)
        known.total = total
        known.calm = 0

    def latest(self, most: int, now: float) -> list[Happening]:
        """The latest of the last hour, the oldest of these first."""
        after = now + self._wall_offset_s - KEPT_S
        while self._entries and self._entries[0].at < after:
            self._entries.popleft()
        return list(self._entries)[-most:] if most > 0 else []


class _Refusing:
    """Since when a pipeline refuses requests, if it does; and the counts when it began."""

    __slots__ = ("before", "calm", "codes", "since", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.before = total
        self.calm = 0
        self.since: float | None = None
        self.codes: dict[str, int] = {}
