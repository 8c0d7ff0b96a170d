"""What a plug-in observes, until it is sent; and references in a model's folder."""

from math import inf, nan
from pathlib import Path
from statistics import fmean, pvariance
from typing import Any

import numpy as np
import pytest

import millstream
from broker.wire.messages import Observations, Observed, Reference, Welcome
from tests.unit.workers.test_session import make, ready
from workers.api import Worker
from workers.observations import FOLD_AT, MOST_NAMES, SAMPLE, Gathering, read_references
from workers.session import REFER_AGAIN_S

GOOD = Reference("x", 10, 0.0, 1.0, [0.0], [0.5, 0.5])


def test_few_are_sent_as_they_are() -> None:
    gathering = Gathering()
    for value in (3.0, nan, 1, np.float32(2.0), inf, 10**400, True):
        gathering.observe("x", value)
    (told,) = gathering.take()
    assert (told.name, told.count, told.ignored) == ("x", 4, 3)
    assert (told.mean, told.least, told.most) == (1.75, 1.0, 3.0)
    assert told.squares == pytest.approx(2.75)
    assert told.sample == [3.0, 1.0, 2.0, 1.0]
    assert gathering.take() == []


def test_many_are_summed_up_and_some_are_drawn() -> None:
    gathering = Gathering()
    values = [float(number) for number in range(10 * FOLD_AT + 7)]
    for value in values:
        gathering.observe("x", value)
    (told,) = gathering.take()
    assert told.count == len(values)
    assert told.mean == pytest.approx(fmean(values))
    assert told.squares == pytest.approx(pvariance(values) * len(values))
    assert (told.least, told.most) == (0.0, values[-1])
    assert len(told.sample) == SAMPLE
    assert fmean(told.sample) == pytest.approx(fmean(values), rel=0.3)


@pytest.mark.parametrize("name", ["", "a b", "n" * 65, "é", 3, None])
def test_what_is_no_name(name: Any) -> None:
    with pytest.raises(ValueError, match="is named by 1 to 64 of"):
        Gathering().observe(name, 1.0)


@pytest.mark.parametrize("value", ["1", b"1", None, [], np.zeros(3)])
def test_what_is_no_number(value: Any) -> None:
    with pytest.raises(TypeError):
        Gathering().observe("x", value)


def test_too_many_names(caplog: pytest.LogCaptureFixture) -> None:
    gathering = Gathering()
    for number in range(MOST_NAMES + 20):
        gathering.observe(f"n{number}", 1.0)
    assert len(gathering.take()) == MOST_NAMES
    assert "too many names are observed" in caplog.text
    assert f"n{MOST_NAMES}" in caplog.text
    assert f"n{MOST_NAMES + 1}" not in caplog.text  # it is said once


def test_without_a_runtime_it_does_nothing() -> None:
    Worker().observe("x", 1.0)


# ------------------------------------------------------------------ references


def test_what_was_written_is_read(tmp_path: Path) -> None:
    millstream.write_reference(tmp_path, {"x": [1, 2, 3], "y": np.ones(5)})
    x, y = read_references(tmp_path)
    assert (x.name, x.count, x.mean) == ("x", 3, 2.0)
    assert (y.name, y.count, y.deviation) == ("y", 5, 0.0)


def test_a_folder_without_one(tmp_path: Path) -> None:
    assert read_references(tmp_path) == []
    assert read_references(tmp_path / "none") == []


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "\xff", '{"x": {"count": 1}}', "[" * 5000,
        '{"x": {"count": 1, "mean": 0, "deviation": 1, "limits": [], "shares": [1]}}',
        '{"a b": {"count": 1, "mean": 0, "deviation": 1, "limits": [0], "shares": [1, 0]}}',
    ],
)  # fmt: skip
def test_one_that_is_none(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "reference.json").write_bytes(text.encode("latin-1"))
    assert read_references(tmp_path) == []
    assert "reference" in caplog.text


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no numbers"):
        millstream.write_reference(tmp_path, {"x": []})
    with pytest.raises(ValueError, match="is named by"):
        millstream.write_reference(tmp_path, {"x y": [1.0]})
    with pytest.raises(OSError, match="No such file"):
        millstream.write_reference(tmp_path / "none", {"x": [1.0]})


# ------------------------------------------------------------------ sending


def test_references_go_with_the_first_to_each_broker_and_now_and_then() -> None:
    session = ready()
    session.references = [GOOD]
    some = [Observed("x", 1, 0.0, 0.0, 0.0, 0.0)]
    assert session.observed([], 2.0) == []
    assert session.observed(some, 2.0) == [Observations(1, some, [GOOD])]
    assert session.observed(some, 3.0) == [Observations(1, some, [])]
    assert session.observed(some, 2.0 + REFER_AGAIN_S) == [Observations(1, some, [GOOD])]
    session.receive(Welcome(2, 1), 70.0)
    assert session.observed(some, 70.0) == [Observations(2, some, [GOOD])]


def test_without_a_broker_nothing_is_sent() -> None:
    assert make().observed([Observed("x", 1, 0.0, 0.0, 0.0, 0.0)], 1.0) == []
