"""The compatibility package without a server: names, options, what goes between stages."""

import dataclasses
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from broker.payload.objects import pack, unpack
from millstream.mosec import errors, objects
from millstream.mosec.adapter import told
from millstream.mosec.args import parse_arguments
from millstream.mosec.log import get_logger, set_logger
from millstream.mosec.mixin import NumBinIPCMixin
from millstream.mosec.passing import Passing
from millstream.mosec.setting import ALWAYS, NEVER, SOMETIMES, Setting, decode, encode
from millstream.mosec.utils import ParseTarget, parse_func_type
from millstream.mosec.worker import Worker

# ------------------------------------------------------------------ the name

SHIMS = {
    "a package that imports all": ("from millstream.mosec import *", ""),
    "an entry in sys.modules": (
        "",
        "import millstream.mosec; sys.modules['mosec'] = millstream.mosec",
    ),
    "wanted, though there is another": (
        "raise RuntimeError",
        "from millstream.mosec import alias; alias.take_over()",
    ),
}
CHECK = """
import sys
{before}
import mosec, mosec.mixin
from mosec import Server, Worker, SSEWorker, Runtime, get_logger, ValidationError
from mosec.errors import ValidationError as Same
from mosec.mixin import MsgpackMixin, NumBinIPCMixin, RedisShmIPCMixin, TypedMsgPackMixin
from mosec.mixin.typed_worker import TypedMsgPackMixin as Typed
from mosec.server import GUARD_CHECK_INTERVAL
from mosec.coordinator import State
from mosec.worker import MOSEC_REF_TEMPLATE
import mosec.args, mosec.env, mosec.log, mosec.protocol, mosec.runtime, mosec.utils
import millstream.mosec.errors, millstream.mosec.mixin
assert Same is ValidationError is millstream.mosec.errors.ValidationError
assert mosec.mixin is millstream.mosec.mixin and Typed is TypedMsgPackMixin
assert millstream.mosec.mixin.__spec__.name == "millstream.mosec.mixin"
"""


@pytest.mark.parametrize("shim", list(SHIMS))
def test_however_mosec_is_named_each_of_its_modules_is_ours(shim: str, tmp_path: Path) -> None:
    package, before = SHIMS[shim]
    if package:
        (tmp_path / "mosec").mkdir()
        (tmp_path / "mosec" / "__init__.py").write_text(package)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{CHECK.format(before=before)}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------ options


def test_the_command_line_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSEC_TIMEOUT", "5000")
    monkeypatch.setenv("MOSEC_PORT", "81")
    monkeypatch.setenv("MOSEC_DEBUG", "false")
    options = parse_arguments(["--port", "82", "--mine"])
    assert (options.timeout, options.port, options.debug) == (5000, 82, False)
    assert options.log_level == "info"
    monkeypatch.setenv("MOSEC_DEBUG", "1")
    assert parse_arguments([]).log_level == "debug"


def test_a_variable_that_cannot_be_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSEC_PORT", "many")
    with pytest.warns(RuntimeWarning, match="MOSEC_PORT=many is left out"):
        assert parse_arguments([]).port == 8000


def test_loggers_have_the_level_that_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSEC_LOGGER_LEVEL", "")
    set_logger(logging.WARNING)
    assert get_logger().level == logging.WARNING


# ------------------------------------------------------------------ errors and types


def test_errors_become_statuses_and_texts() -> None:
    cases: dict[Any, tuple[int, str]] = {
        errors.ValidationError(KeyError("x")): (422, "request validation error: 'x'"),
        errors.DecodingError(): (400, "decoding error: decoding error"),
        errors.EncodingError("a\nb"): (500, "encoding error: a - b"),
        errors.MosecTimeoutError("late"): (408, "mosec timeout error: late"),
        errors.MosecError("?"): (500, "mosec error: ?"),
    }
    for error, wanted in cases.items():
        reject = told(error)
        assert (reject.status, reject.message) == wanted


def test_types_of_items() -> None:
    def single(data: int) -> str:
        return str(data)

    def batch(self: Any, data: list[bytes]) -> list[str]:
        return [str(each) for each in data]

    def neither(data): ...  # type: ignore[no-untyped-def]
    def odd(data: dict[str, int]) -> None: ...

    assert parse_func_type(single, ParseTarget.INPUT) is int
    assert parse_func_type(single, ParseTarget.RETURN) is str
    assert parse_func_type(batch, ParseTarget.RETURN) is str
    assert parse_func_type(neither, ParseTarget.INPUT) is Any
    with pytest.raises(TypeError, match="is no type of an item"):
        parse_func_type(odd, ParseTarget.INPUT)


# ------------------------------------------------------------------ between stages


class Plain(Worker):
    """Has no form of its own."""

    def forward(self, data: Any) -> Any:
        return data


class Upper(Plain):
    """Has one: texts, loud on their way."""

    def serialize_ipc(self, data: Any) -> bytes:
        return str(data).upper().encode()

    def deserialize_ipc(self, data: bytes) -> Any:
        return data.decode().lower()


class Odd(Plain):
    """Reads the default form by itself."""

    def deserialize_ipc(self, data: bytes) -> Any:
        return {"read": super().deserialize_ipc(data)}


def passing(cls: type[Worker], first: str = NEVER, last: str = NEVER) -> Passing:
    return Passing(cls(), SimpleNamespace(first=first, last=last))  # type: ignore[arg-type]


def test_what_one_worker_sends_the_next_receives() -> None:
    array = np.arange(3)
    array.flags.writeable = False
    sent = passing(Plain).sent([{"x": array}])
    (item,) = passing(Plain).received(sent)
    item["x"][0] = 7
    assert passing(Upper).received(passing(Upper).sent(["Text"])) == ["text"]
    assert passing(Odd).received(passing(Plain).sent([{"a": 1}])) == [{"read": {"a": 1}}]


def test_arrays_are_views_where_a_class_only_reads_them() -> None:
    class Reader(NumBinIPCMixin, Plain):
        """Says so."""

    array = np.arange(3)
    array.flags.writeable = False
    assert passing(Reader).received([array])[0] is array


def test_a_stage_that_is_sometimes_the_first_or_the_last() -> None:
    both = passing(Upper, first=SOMETIMES, last=SOMETIMES)
    (sent,) = both.sent(["Text"])
    assert both.raw(sent) == "Text"
    assert both.received([both.decoded("Body"), dict(sent)]) == ["Body", "text"]
    (point,) = passing(Plain, last=SOMETIMES).sent([Point(1)])
    assert passing(Plain, last=SOMETIMES).raw(point) == Point(1)
    only = passing(Upper, first=ALWAYS, last=ALWAYS)
    assert only.sent(["Text"]) == only.received(["Text"]) == ["Text"]


def test_the_default_form_keeps_arrays() -> None:
    worker = Plain()
    data = {"x": np.arange(70_000), "y": [1, "a", None, b"b"], "z": np.zeros(2)}
    back = worker.deserialize_ipc(worker.serialize_ipc(data))
    assert back["y"] == data["y"]
    np.testing.assert_array_equal(back["x"], data["x"])


def test_arrays_may_be_written_to_wherever_they_are() -> None:
    def view() -> Any:
        array = np.zeros(2)
        array.flags.writeable = False
        return array

    nested = objects.received(
        {"a": [view(), 1], "b": (view(), "x"), "c": {"d": view()}, "e": [1, 2]}, copies=True
    )
    for array in (nested["a"][0], nested["b"][0], nested["c"]["d"]):
        array[0] = 1
    assert isinstance(nested["b"], tuple)


class Point(msgspec.Struct, frozen=True):
    """Of a script's own."""

    x: Any
    label: str = ""


@dataclasses.dataclass
class Box:
    """Likewise."""

    corner: Point
    tags: set[str]
    size: int = dataclasses.field(init=False, default=3)


def test_structs_dataclasses_and_sets_arrive_as_they_were_sent() -> None:
    box = Box(Point(1.5, "a"), {"t"})
    sent = passing(Plain).sent([{"boxes": [box], "n": 1}, (Point(2), frozenset({1}))])
    packed = [unpack(*pack(each)) for each in sent]
    assert passing(Plain).received(packed) == [
        {"boxes": [box], "n": 1},
        (Point(2), frozenset({1})),
    ]


@pytest.mark.parametrize("name", ["Plain", "NoSuch", "pytest.fixture"])
def test_no_other_class_is_made(name: str) -> None:
    with pytest.raises(TypeError, match="is no Struct or dataclass here"):
        objects.received({"\0mosec.object": [__name__, name, {}]}, copies=True)


def test_a_setting_travels() -> None:
    setting = Setting(
        script="s.py", module="m", name="N", argv=["s.py"], path=["/"], stage="N_1",
        max_batch_size=2, timeout_s=3.0, worker_id=1, first=ALWAYS, last=NEVER, devices=None,
    )  # fmt: skip
    assert decode(encode(setting)) == setting
    with pytest.raises(msgspec.DecodeError):
        decode("{}")
