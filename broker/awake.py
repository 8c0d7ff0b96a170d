"""Whether the broker's next wait is spent awake, so that what ends it need not wake it first. Pure.

To be woken costs a lone request more than the broker's own work, in one stage twice, in three four
times. So after waits that were short, as they are where stages are quick, the broker looks for the
next message without sleep, for a moment, as KVM does before it halts a processor (`halt_poll_ns`,
as long). Where that is in vain, as it mostly is where others want the processors, it rests from it.
"""

AWAKE_S = 0.0002
"""How long it looks."""
SHORT_S = 0.0004
"""A wait that ended within this time was short: to be woken takes a good part of it."""
IN_A_ROW = 8
"""After so many short waits the next one may be short, too."""
REST_LEAST, REST_MOST = 4, 1024
"""For so many short waits it rests when it has looked in vain: twice as many each time, and half as
many when it was not in vain."""


class Wakefulness:
    """What the waits so far say about the next."""

    __slots__ = ("_counts", "_rest", "_row")

    def __init__(self, cores: int) -> None:
        self._counts = int(cores > 1)  # on the only one it would keep others from answering
        self._row = 0  # of short waits, less those to rest for
        self._rest = REST_LEAST

    @property
    def pays(self) -> bool:
        """Whether the next wait should begin awake."""
        return self._row >= IN_A_ROW

    def caught(self) -> None:
        """Something came while it was awake."""
        self._rest = max(self._rest // 2, REST_LEAST)

    def missed(self) -> None:
        """Nothing came while it was awake."""
        self._row = -self._rest
        self._rest = min(self._rest * 2, REST_MOST)

    def slept(self, wait_s: float) -> None:
        """A wait is over that took so long, some of it asleep."""
        if wait_s <= SHORT_S:
            self._row += self._counts
        elif self._row > 0:
            self._row = 0
