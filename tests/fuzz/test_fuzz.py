"""A short run of every target, the same each time; `python -m tests.fuzz` goes on for longer."""

from collections.abc import Callable
from random import Random

import pytest

from tests.fuzz.bodies import Bodies
from tests.fuzz.messages import Messages
from tests.fuzz.surface import Surface
from tests.fuzz.target import Target, run
from tests.fuzz.tensors import Tensors


@pytest.mark.parametrize(
    ("target", "inputs"),
    [
        (Messages, 600),
        (Bodies, 1000),
        (Tensors, 1000),
        pytest.param(Surface, 1000, marks=pytest.mark.system),
    ],
)
def test_changed_inputs(target: Callable[[Random], Target], inputs: int) -> None:
    ran = run(target, 7, most_inputs=inputs)
    if ran.finding is not None:
        raise ran.finding
    assert ran.inputs >= inputs
