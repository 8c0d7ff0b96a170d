"""When two answers are alike, and what becomes of those that cannot be compared as asked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker.payload.tensor_bodies import TENSORS_TYPE, TensorPart, pack_tensors
from broker.wire.frames import blob
from broker.wire.messages import Pair, Ref
from workers.comparer import Plugins, judge
from workers.comparing import SHOWN_CHARS, Rule, agree, shown

CLOSE = Rule("close", 1e-5, 1e-8)
EXACT = Rule("exact", 1.0, 1.0)
TOP = Rule("top1")
MANY = [float(number) for number in range(100)]


@pytest.mark.parametrize(
    ("rule", "a", "b", "alike"),
    [
        (CLOSE, 1.0, 1.0 + 1e-6, True),
        (CLOSE, 1.0, 1.001, False),
        (CLOSE, 1, 1.0, True),
        (CLOSE, True, 1, False),
        (CLOSE, "a", "a", True),
        (CLOSE, None, 0, False),
        (CLOSE, [1.0, [2.0]], [1.0, [2.0 + 1e-7]], True),
        (CLOSE, [1.0], [1.0, 2.0], False),
        (CLOSE, {"x": 1.0, "y": "a"}, {"y": "a", "x": 1.0 + 1e-7}, True),
        (CLOSE, {"x": 1.0}, {"z": 1.0}, False),
        (CLOSE, float("nan"), float("nan"), True),
        (CLOSE, float("inf"), 1e300, False),
        (CLOSE, MANY, [each + 1e-9 for each in MANY], True),
        (CLOSE, MANY, [*MANY[:-1], 98.0], False),
        (CLOSE, [*MANY, "x"], [*MANY, "x"], True),
        (CLOSE, [MANY] * 40, [MANY] * 39 + [MANY[:-1]], False),
        (CLOSE, np.ones(3), np.ones(3) + 1e-7, True),
        (CLOSE, np.ones(3), np.ones(4), False),
        (CLOSE, np.array([b"a"], dtype=object), np.array([b"a"], dtype=object), True),
        (CLOSE, b"raw", b"raw", True),
        (CLOSE, 2**63 - 1, 2**63 - 1, True),
        (EXACT, 1.0, 1.0 + 1e-12, False),
        (EXACT, {"x": [1]}, {"x": [1.0]}, True),
        (TOP, [0.1, 0.7, 0.2], [0.3, 0.4, 0.3], True),
        (TOP, [0.1, 0.7, 0.2], [0.6, 0.3, 0.1], False),
        (TOP, [[1, 2], [2, 1]], [[3, 9], [9, 3]], True),
        (TOP, {"cat": 0.9, "dog": 0.1}, {"cat": 0.6, "dog": 0.4}, True),
        (TOP, {"cat": 0.9, "dog": 0.1}, {"cat": 0.4, "dog": 0.6}, False),
        (TOP, {"label": "cat", "score": [1, 2]}, {"label": "cat", "score": [0, 9]}, True),
        (TOP, "cat", "dog", False),
        (TOP, [], [], True),
    ],
)
def test_alike(rule: Rule, a: Any, b: Any, alike: bool) -> None:
    assert agree(a, b, rule) is alike


def test_what_json_and_msgpack_say_is_compared_and_not_how() -> None:
    verdict = judge(Pair(1, b'{"a":1,"b":[1.0]}', b'{"b": [1], "a": 1.0}'), Plugins())
    assert (verdict.agree, verdict.note) == (True, "")


def test_a_difference_is_shown() -> None:
    verdict = judge(Pair(7, b'{"a":1}', b'{"a": 2}'), Plugins())
    assert (verdict.pair, verdict.agree) == (7, False)
    assert (verdict.stable, verdict.shadow) == ('{"a":1}', '{"a":2}')
    assert len(shown(["x" * 10_000])) == SHOWN_CHARS


def test_tensors_and_large_bodies_are_read() -> None:
    def tensors(last: float) -> Any:
        data = np.array([*range(2000), last], dtype=np.float32)
        body, buffers = pack_tensors([TensorPart("x", "FP32", [2001], data.tobytes())])
        return blob(body, buffers, TENSORS_TYPE)

    assert judge(Pair(1, tensors(1.0), tensors(1.0)), Plugins()).agree
    assert not judge(Pair(1, tensors(1.0), tensors(2.0)), Plugins()).agree
    large = blob(b"", [b'{"a": 1}'])
    assert judge(Pair(1, large, b'{"a":1}'), Plugins()).agree


def test_what_is_no_json_is_compared_as_bytes() -> None:
    assert judge(Pair(1, b"{", b"{"), Plugins()).agree
    assert not judge(Pair(1, b"{", b"{}"), Plugins()).agree


def test_what_lay_in_lost_memory_is_unread() -> None:
    lost = blob(b"", [Ref(1, 2, 3, 0, 10)])
    verdict = judge(Pair(1, lost, b"1"), Plugins())
    assert verdict.unread
    assert "lost" in verdict.note


def test_a_key_may_be_compared_alone() -> None:
    pair = Pair(1, b'{"label":"a","ms":1}', b'{"label":"a","ms":2}', key="label")
    assert judge(pair, Plugins()).agree
    pair.key = "none"
    verdict = judge(pair, Plugins())
    assert (verdict.agree, verdict.note) == (
        False,
        "all of it is compared: an answer has no key 'none'",
    )


@pytest.mark.parametrize(
    ("compare", "agrees", "note"),
    [
        ("def compare(a, b): return abs(a - b) < 5", True, ""),
        ("def compare(a, b): return 1 / 0", False, "compare raised ZeroDivisionError"),
        ("def other(a, b): return True", False, "has no function compare(a, b)"),
        ("def compare(", False, "cannot be loaded: SyntaxError"),
    ],
)
def test_a_plug_in_compares_by_itself(
    tmp_path: Path, compare: str, agrees: bool, note: str
) -> None:
    script = tmp_path / f"own_{abs(hash(compare))}.py"
    script.write_text(
        "from millstream import Worker\n"
        "class P(Worker):\n"
        "    def forward(self, batch): return batch\n"
        f"{compare}\n"
    )
    verdict = judge(Pair(1, b"1", b"2", how="plugin", plugin=f"{script}:P"), Plugins())
    assert verdict.agree is agrees
    assert note in verdict.note


def test_a_plug_in_that_is_on_another_host_is_done_without() -> None:
    pair = Pair(1, b"1", b"1.0", how="plugin", plugin="/nowhere/infer.py:P")
    verdict = judge(pair, Plugins())
    assert verdict.agree
    assert "/nowhere/infer.py cannot be read here" in verdict.note
