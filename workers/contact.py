"""Whether a broker knows us: its epoch, when it was last heard, when to say hello (again). Pure.

Workers and supervisors share these rules: hello at the start, when the broker asks who we are, and
each second as long as it has not welcomed us or has been silent for `SILENCE_S`.
"""

from broker.wire.messages import NO_EPOCH, SILENCE_S

HELLO_S = 1.0
HELLO_REFUSED_S = 5.0
"""A broker that refuses us has to be restarted or changed first: no need to ask it each second."""
_SAME_S = 0.1
"""Several messages that a broker does not know what to make of are answered with one hello."""


class Contact:
    """What one peer knows of its broker."""

    __slots__ = ("_hello_at", "_hello_every_s", "_last_heard", "epoch", "is_welcome", "reason")

    def __init__(self, now: float) -> None:
        self.epoch = NO_EPOCH
        self.is_welcome = False
        self.reason = ""
        """Why the broker refused us; "" unless it just did."""
        self._last_heard = now
        self._hello_at = now - HELLO_S
        self._hello_every_s = HELLO_S

    def said_hello(self, now: float) -> None:
        """A hello goes out."""
        self._hello_at = now

    def heard(self, now: float) -> None:
        """The broker spoke as to someone it knows."""
        self._last_heard = now

    def welcomed(self, epoch: int, now: float) -> None:
        """The broker took us in."""
        self.epoch = epoch
        self.is_welcome = True
        self.reason = ""
        self._last_heard = now
        self._hello_every_s = HELLO_S

    def refused(self, reason: str, now: float) -> None:
        """The broker will not have us as we are."""
        self.is_welcome = False
        self.reason = reason
        self._last_heard = now
        self._hello_every_s = HELLO_REFUSED_S

    def unknown(self, now: float) -> bool:
        """The broker does not know us: whether to say hello at once."""
        self.is_welcome = False
        self._last_heard = now
        return now - self._hello_at >= _SAME_S

    def answers(self, now: float) -> bool:
        """Whether there is a broker that knows us and is not silent."""
        return self.is_welcome and now - self._last_heard < SILENCE_S

    def hello_due(self, now: float) -> bool:
        """Whether time asks for a hello."""
        return now >= self.next_due()

    def next_due(self) -> float:
        """When a hello will be due if nothing is heard until then."""
        again = self._hello_at + self._hello_every_s
        return max(again, self._last_heard + SILENCE_S) if self.is_welcome else again
