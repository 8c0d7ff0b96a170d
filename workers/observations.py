"""Numbers that a plug-in observes, gathered until they are sent, once a second.

Cheap where it is called, bounded however often that is: some numbers are drawn by chance, and of
all of them the mean, the spread and the ends are kept.
"""

import json
import re
from collections.abc import Iterable
from math import fsum
from pathlib import Path
from random import Random
from typing import Any, SupportsFloat

import msgspec

from broker.wire import log
from broker.wire.messages import Observed, Reference
from broker.wire.reference import LARGEST, reference_of, trouble_of

MOST_NAMES = 64

SAMPLE = 100
"""So many of the numbers of one name are sent each time."""

FOLD_AT = 1000
"""So many wait for their sum to be made."""

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")

REFERENCE_FILE = "reference.json"


class _Gathered:
    """What was observed under one name and is not sent yet."""

    __slots__ = ("count", "fresh", "ignored", "least", "mean", "most", "sample", "squares")

    def __init__(self) -> None:
        self.fresh: list[float] = []
        self.count = self.ignored = 0
        self.mean = self.squares = 0.0
        self.least = self.most = 0.0
        self.sample: list[float] = []

    def fold(self, chance: Random) -> None:
        """Take what is fresh into the sums."""
        fresh, self.fresh = self.fresh, []
        known = [value for value in fresh if abs(value) <= LARGEST]
        self.ignored += len(fresh) - len(known)
        if not known:
            return
        for value in known:
            self.count += 1
            if len(self.sample) < SAMPLE:
                self.sample.append(value)
            elif (place := int(chance.random() * self.count)) < SAMPLE:
                self.sample[place] = value  # each is kept as likely as any other (Vitter, 1985)
        self._merge(known)

    def _merge(self, known: list[float]) -> None:
        new, before = len(known), self.count - len(known)
        mean = fsum(known) / new
        squares = fsum((value - mean) ** 2 for value in known)
        away = mean - self.mean
        self.mean += away * (new / self.count)
        self.squares += squares + away * away * before * (new / self.count)
        low, high = min(known), max(known)
        self.least = min(self.least, low) if before else low
        self.most = max(self.most, high) if before else high

    def told(self, name: str) -> Observed:
        return Observed(
            name, self.count, self.mean, self.squares, self.least, self.most, self.ignored,
            self.sample,
        )  # fmt: skip


class Gathering:
    """All that one worker's plug-in observes."""

    def __init__(self) -> None:
        self._names: dict[str, _Gathered] = {}
        self._chance = Random()
        self._is_full = False

    def observe(self, name: str, value: SupportsFloat) -> None:
        """Raises ValueError for what is no name, and TypeError for what is no number."""
        gathered = self._names.get(name)
        if gathered is None:
            gathered = self._begin(name)
        gathered.fresh.append(_number(value))
        if len(gathered.fresh) >= FOLD_AT:
            gathered.fold(self._chance)

    def _begin(self, name: str) -> _Gathered:
        check_name(name)
        gathered = _Gathered()
        if len(self._names) < MOST_NAMES:
            self._names[name] = gathered
        elif not self._is_full:
            self._is_full = True
            log.warning("too many names are observed", most=MOST_NAMES, left_out=name)
        return gathered

    def take(self) -> list[Observed]:
        """What came since this was asked last."""
        told = []
        for name, gathered in self._names.items():
            gathered.fold(self._chance)
            if gathered.count or gathered.ignored:
                told.append(gathered.told(name))
                self._names[name] = _Gathered()
        return told


def check_name(name: object) -> None:
    """Raises ValueError for what cannot be a name."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise ValueError(f"what is observed is named by 1 to 64 of A-Z a-z 0-9 _ . -, not {name!r}")


def _number(value: Any) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, str | bytes):
        raise TypeError(f"what is observed is a number, not {value!r}")
    try:
        return float(value)
    except OverflowError:
        return float("inf")


# ------------------------------------------------------------------ references


def write_reference(folder: str | Path, observed: dict[str, Iterable[float]]) -> None:
    """Write down how these numbers are distributed, for the model in this folder.

    Raises ValueError where there are no numbers or no name, OSError where it cannot be written.
    """
    made: dict[str, Any] = {}
    for name, values in observed.items():
        check_name(name)
        made[name] = msgspec.to_builtins(_ByName.of(reference_of(name, map(float, values))))
    Path(folder, REFERENCE_FILE).write_text(json.dumps(made, indent=1) + "\n")


def read_references(folder: Path) -> list[Reference]:
    """Those of the model in this folder. What cannot be used is left out, and the log says so."""
    path = folder / REFERENCE_FILE
    try:
        read = msgspec.json.decode(path.read_bytes(), type=dict[str, _ByName])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        log.warning("the reference cannot be read", path=path, error=error)
        return []
    references = []
    for name, each in list(read.items())[:MOST_NAMES]:
        reference = each.named(name)
        trouble = trouble_of(reference)
        if trouble or NAME.fullmatch(name) is None:
            log.warning("a reference is of no use", path=path, name=name, why=trouble or "its name")
        else:
            references.append(reference)
    return references


class _ByName(msgspec.Struct, forbid_unknown_fields=True):
    """A reference as the file has it."""

    count: int
    mean: float
    deviation: float
    limits: list[float]
    shares: list[float]

    @classmethod
    def of(cls, reference: Reference) -> "_ByName":
        return cls(
            reference.count, reference.mean, reference.deviation, reference.limits, reference.shares
        )

    def named(self, name: str) -> Reference:
        return Reference(name, self.count, self.mean, self.deviation, self.limits, self.shares)
