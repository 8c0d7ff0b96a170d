"""What a fuzz run drives, and how it drives it."""

import math
import time
from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import NamedTuple, Protocol


class Finding(AssertionError):
    """An input that was not dealt with as it should be; the message shows it."""


class Target(Protocol):
    """A part of the system that inputs are made for. Everything follows from the Random given."""

    name: str

    def step(self) -> int:
        """Some inputs, and how many they were. Raises Finding."""

    def finish(self) -> dict[str, str]:
        """Look at what is left and what has grown, and tell it. Raises Finding."""

    def close(self) -> None:
        """End what was started."""


class Run(NamedTuple):
    """How a run went. `left` is empty where it ended with a finding."""

    inputs: int
    seconds: float
    left: dict[str, str]
    finding: Finding | None


def run(
    make: Callable[[Random], Target],
    seed: int,
    *,
    most_inputs: float = math.inf,
    most_s: float = math.inf,
) -> Run:
    """Drive a new target for so many inputs, or so long, or until a finding."""
    inputs = 0
    passed_s = 0.0
    with closing(make(Random(seed))) as target:
        began = time.monotonic()
        try:
            while inputs < most_inputs and passed_s < most_s:
                inputs += target.step()
                passed_s = time.monotonic() - began
            return Run(inputs, passed_s, target.finish(), None)
        except Finding as finding:
            return Run(inputs, time.monotonic() - began, {}, finding)
