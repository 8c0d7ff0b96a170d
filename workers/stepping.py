"""The plain loop's half of streams: every open one is advanced by one value, in turn."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workers import steps
from workers.plugin_log import running
from workers.serving import Serving
from workers.signals import SignalCounter
from workers.steps import Driven
from workers.streams import OpenStream
from workers.work import Hooks

if TYPE_CHECKING:
    import asyncio

LONG_ROUND_S = 0.005
"""In a round that takes longer, values are not kept waiting for those of the other streams, and
what clients have said is heard in between."""


class Stepping:
    """Drives the iterators of one worker."""

    def __init__(self, hooks: Hooks, serving: Serving, stop: SignalCounter) -> None:
        self._serving = serving
        self._stop = stop
        self._encode = hooks.encode_value
        self._max_streams = hooks.shape.max_streams
        self._open: list[OpenStream] = []
        self._runner: asyncio.Runner | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to advance."""
        return not self._open or not any(each.may_step or each.is_over for each in self._open)

    @property
    def has_room(self) -> bool:
        """Whether another batch may be begun."""
        return len(self._open) < self._max_streams

    def take(self, opened: Sequence[OpenStream]) -> None:
        """These are open from now on."""
        for stream in opened:
            if hasattr(stream.iterator, "__anext__"):
                stream.iterator = Driven(stream.iterator, self._loop())
        self._open += opened

    def _loop(self) -> "asyncio.Runner":
        if self._runner is None:
            import asyncio  # noqa: PLC0415  for these alone

            self._runner = asyncio.Runner()
        return self._runner

    def advance(self) -> None:
        """One round: each that may go on goes on by one value, and ends if it was told to."""
        if not self._open:
            return
        serving = self._serving
        streams = serving.session.streams
        heard_at = time.monotonic()
        going_on = []
        for stream in self._open:
            running.set(stream)
            if stream.may_step and not serving.link.is_stuck:
                streams.advance(stream, steps.step(stream, self._encode))
            if stream.is_over:
                steps.close(stream)
            else:
                going_on.append(stream)
            if time.monotonic() - heard_at >= LONG_ROUND_S:
                serving.send_steps()
                serving.pump(self._stop)
                heard_at = time.monotonic()
        running.set(None)
        serving.send_steps()
        self._open = going_on

    def close(self) -> None:
        """The worker ends: so do its streams."""
        self._serving.session.streams.stop_all()
        for stream in self._open:
            steps.close(stream)
        self._open.clear()
        if self._runner is not None:
            self._runner.close()
