"""Whether the broker's next wait is spent awake, so that what ends it need not wake it first. Pure.

To be woken costs a lone request more than the broker's own work, in one stage twice, in three four
times. So after waits that were short, as they are where stages are quick, the broker looks for the
next message without sleep, for a moment, as KVM does before it halts a processor (`halt_poll_ns`).
Where that is in vain, as it mostly is where others want the processors, it rests from it.
"""

AWAKE_S = 0.0004
"""How long it looks. On a slow machine the longest wait of a quick request, from its answer to the
client's next one, takes 0.2 to 0.3 ms."""
SHORT_S = 0.0005
"""A wait that ended within this time was short: to be woken takes a part of it."""
IN_A_ROW = 8
"""After so many short waits the next one may be short, too."""
REST_LEAST, REST_MOST = 1, 1024
"""For so many short waits it rests when it has looked in vain: twice as many each time. To look in
vain takes as much of a processor as to look three or four times not in vain saves, so that three of
these make the rest half as long."""
_LESS = 25 / 32  # by three times this, half


class Wakefulness:
    """What the waits so far say about the next."""

    __slots__ = ("_counts", "_rest", "_row")

    def __init__(self, cores: int) -> None:
        self._counts = int(cores > 1)  # on the only one it would keep others from answering
        self._row = 0  # of short waits, less those to rest for
        self._rest: float = REST_LEAST

    @property
    def pays(self) -> bool:
        """Whether the next wait should begin awake."""
        return self._row >= IN_A_ROW

    def caught(self) -> None:
        """Something came while it was awake."""
        self._rest = max(self._rest * _LESS, REST_LEAST)

    def missed(self) -> None:
        """Nothing came while it was awake."""
        self._row = IN_A_ROW - int(self._rest)
        self._rest = min(self._rest * 2, REST_MOST)

    def slept(self, wait_s: float) -> None:
        """A wait is over that took so long, some of it asleep."""
        if wait_s <= SHORT_S:
            self._row += self._counts
        elif self._row > 0:
            self._row = 0
