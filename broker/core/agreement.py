"""How far two versions agree: what was counted of the pairs of their answers, and samples."""

from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct, field

SAMPLES = 20
"""So many of the latest disagreements are kept."""

SAMPLE_CHARS = 2048
"""Of each of the two answers in a sample."""

PAIRS = 32
"""Of so many pairs of versions figures are kept, those that began last."""


class Sample(Struct, frozen=True):
    """A request that two versions did not answer alike, in JSON as far as that can be had."""

    kind: str  # "differs" or "failed"
    stable: str
    shadow: str


class Agreement(Struct):
    """Of one stable version and one shadow. `compared` is the sum of `agreed`, `differed` and
    `failed`: the shadow alone came to an error.
    """

    copies: int = 0  # that were made
    compared: int = 0
    agreed: int = 0
    differed: int = 0
    failed: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # not compared, by the reason
    samples: list[Sample] = field(default_factory=list)  # the latest last
    note: str = ""  # why the latest pair could not be compared as was asked

    def judge(self, kind: str, stable: str = "", shadow: str = "") -> None:
        """One more pair: "agreed", "differs" or "failed"."""
        self.compared += 1
        if kind == "agreed":
            self.agreed += 1
            return
        if kind == "failed":
            self.failed += 1
        else:
            self.differed += 1
        self.samples.append(Sample(kind, stable[:SAMPLE_CHARS], shadow[:SAMPLE_CHARS]))
        del self.samples[:-SAMPLES]


class Agreements:
    """Of a pipeline, by (stable version, shadow)."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], Agreement] = {}

    def of(self, stable: str, shadow: str) -> Agreement:
        """The figures of two versions, to be counted in."""
        found = self._of.get((stable, shadow))
        if found is None:
            while len(self._of) >= PAIRS:
                del self._of[next(iter(self._of))]
            found = self._of[stable, shadow] = Agreement()
        return found

    def find(self, a: str, b: str) -> tuple[str, str, Agreement] | None:
        """The figures of two versions, whichever was the shadow: (stable, shadow, figures)."""
        for stable, shadow in ((a, b), (b, a)):
            if (found := self._of.get((stable, shadow))) is not None:
                return stable, shadow, found
        return None

    def all(self) -> list[tuple[str, str, Agreement]]:
        """All figures, with stable version and shadow."""
        return [(*versions, each) for versions, each in self._of.items()]


def agreement(agreements: Agreements, a: str, b: str) -> dict[str, Any] | None:
    """What is known of two versions, as JSON has it, the latest samples first; None: nothing."""
    found = agreements.find(a, b)
    if found is None:
        return None
    stable, shadow, figures = found
    about: dict[str, Any] = msgspec.to_builtins(figures)
    about["samples"].reverse()
    return {"stable": stable, "shadow": shadow} | about
