"""Batches: what comes of results, exceptions and odd returns, item by item."""

import asyncio
import logging
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from broker.wire import frames
from broker.wire.errors import ErrorCode
from broker.wire.log import logger
from broker.wire.messages import Batch, BatchItem, Blob, Failure, RequestMeta
from tests.unit.workers.batches import answers, item, run_batch, through, values
from workers.api import Reject, RequestInfo, Worker
from workers.checks import shape_of
from workers.execute import run, run_async
from workers.memory import SharedMemory
from workers.work import Hooks, Work


class Boom(Worker):
    """Echoes, and raises for a batch that has a bad item in it."""

    max_batch_size = 32

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error or ValueError("bad")
        self.sizes: list[int] = []

    def forward(self, batch: list[Any]) -> list[Any]:
        self.sizes.append(len(batch))
        if "bad" in batch:
            raise self.error
        return batch


class Returns(Worker):
    """Returns what it was told to, whatever the batch."""

    max_batch_size = 32

    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def forward(self, batch: list[Any]) -> Any:
        return self.returned


@pytest.fixture
def log_lines(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    caplog.set_level(logging.INFO, logger.name)
    return lambda: caplog.text


def codes(outcomes: list[object]) -> list[object]:
    return [out.code if isinstance(out, Failure) else out for out in outcomes]


# ------------------------------------------------------------------ exceptions


@pytest.mark.parametrize("place", range(5))
def test_only_the_guilty_item_fails(place: int) -> None:
    given: list[object] = [1, 2, 3, 4, 5]
    given[place] = "bad"
    expected = list(given)
    expected[place] = ErrorCode.WORKER_ERROR
    assert codes(through(Boom(), given)) == expected


def test_a_failed_answer_has_an_id_and_no_traceback(log_lines: Callable[[], str]) -> None:
    (failure,) = through(Boom(ValueError("secret")), ["bad"])
    assert isinstance(failure, Failure)
    assert len(failure.error_id) == 12
    assert "secret" not in failure.message
    text = log_lines()
    assert failure.error_id in text
    assert "request_id=r" in text
    assert "ValueError: secret" in text
    assert "in forward" in text  # the traceback, beginning at the plug-in
    assert "in run" not in text


@pytest.mark.parametrize(
    ("content_type", "told"), [("application/x-www-form-urlencoded", True), ("image/png", False)]
)
def test_json_that_curl_calls_a_form_is_told_of(content_type: str, told: bool) -> None:
    class Looks(Worker):
        def forward(self, batch: list[Any]) -> list[Any]:
            return [each["x"] for each in batch]

    sent = [item(b'{"x": 1}', content_type=content_type)]
    (failure,) = run_batch(Looks(), sent, first=True).done.outcomes
    assert isinstance(failure, Failure)
    assert ("needs Content-Type: application/json" in failure.message) is told


def test_halving_renews_before_every_further_call() -> None:
    plugin = Boom()
    ran = run_batch(plugin, [item(value) for value in (1, 2, "bad", 4)])
    assert plugin.sizes == [4, 2, 2, 1, 1]
    assert ran.renewals == 4
    assert not ran.done.sample
    assert not ran.done.useless


def test_how_long_the_parts_of_a_batch_took() -> None:
    class Slow(Worker):
        def decode(self, body: bytes, content_type: str) -> Any:
            time.sleep(0.02)
            return super().decode(body, content_type)

        def forward(self, batch: list[Any]) -> list[Any]:
            time.sleep(0.03)
            if len(batch) > 1:
                raise RuntimeError
            return batch

    done = run_batch(Slow(), [item(b"1"), item(b"2")], first=True).done
    assert 0.04 <= done.phases.decode_s < 1.0
    assert 0.09 <= done.phases.forward_s < 1.0


def test_a_batch_without_a_result_is_useless() -> None:
    assert run_batch(Boom(), [item("bad"), item("bad")]).done.useless
    assert run_batch(Returns([ValueError(), Reject("no")]), [item(1), item(2)]).done.useless
    assert not run_batch(Returns([ValueError(), 2]), [item(1), item(2)]).done.useless
    assert not run_batch(Returns([Reject("no")]), [item(1)]).done.useless


@pytest.mark.parametrize(
    "error",
    [RecursionError(), KeyboardInterrupt(), SystemExit(1), StopIteration(), GeneratorExit()],
)
def test_no_exception_ends_the_process(error: BaseException) -> None:
    assert codes(through(Boom(error), [1, "bad"])) == [1, ErrorCode.WORKER_ERROR]


def test_what_may_not_run_twice_is_not_halved() -> None:
    plugin = Boom()
    plugin.repeatable = False
    assert codes(through(plugin, [1, "bad"])) == [ErrorCode.WORKER_ERROR] * 2
    assert plugin.sizes == [2]


def test_halves_see_their_items_as_they_were_sent() -> None:
    class Spoils(Worker):
        max_batch_size = 4

        def forward(self, batch: list[Any]) -> list[Any]:
            results = [value["x"] for value in batch]
            for value in batch:
                value["x"] = "spoilt"
            if len(batch) > 1:
                batch.clear()
                raise ValueError
            return results

    assert through(Spoils(), [{"x": 1}, {"x": 2}, {"x": 3}]) == [1, 2, 3]


def test_a_failed_call_keeps_no_memory_while_its_halves_run() -> None:
    class Tensor:
        pass

    class Hungry(Worker):
        max_batch_size = 2

        def forward(self, batch: list[Any]) -> list[Any]:
            if len(batch) > 1:
                activations = Tensor()
                self.taken = weakref.ref(activations)
                raise MemoryError
            assert self.taken() is None
            return batch

    assert through(Hungry(), [1, 2]) == [1, 2]


# ------------------------------------------------------------------ rejections


def test_a_reject_in_an_items_place_answers_that_item() -> None:
    rejected = Reject("too small", status=422)
    outcomes = through(Returns([1, rejected]), [1, 2])
    assert outcomes == [1, Failure(ErrorCode.REJECTED, "too small", 422)]


def test_a_raised_reject_finds_its_item() -> None:
    outcomes = through(Boom(Reject("no", status=409)), [1, "bad", 3])
    assert outcomes == [1, Failure(ErrorCode.REJECTED, "no", 409), 3]


@pytest.mark.parametrize("status", [200, 399, 500, "422"])
def test_a_reject_is_a_4xx(status: Any) -> None:
    with pytest.raises(ValueError, match="client's faults"):
        Reject("no", status=status)


def test_an_exception_object_fails_its_item_alone() -> None:
    outcomes = codes(through(Returns([1, ValueError("x"), 3]), [1, 2, 3]))
    assert outcomes == [1, ErrorCode.WORKER_ERROR, 3]


def test_no_message_of_a_reject_breaks_the_answer() -> None:
    class Odd(Reject):
        def __init__(self) -> None:
            """Says nothing to its base."""

    outcomes = through(Returns([Reject("half \ud83d"), Odd(), Reject("x" * 10**6)]), [1, 2, 3])
    assert outcomes[0] == Failure(ErrorCode.REJECTED, "half ?", 400)
    assert outcomes[1] == Failure(ErrorCode.REJECTED, "", 400)
    assert len(outcomes[2].message) == 2000  # type: ignore[attr-defined]


# ------------------------------------------------------------------ results of any kind


@pytest.mark.parametrize(
    ("returned", "named"),
    [
        ([1, 2], "2 results"),
        ([1, 2, 3, 4], "4 results"),
        ([], "0 results"),
        (None, "NoneType"),
        ("abc", "str of length 3"),
        (b"abc", "bytes of length 3"),
        ({"a": 1, "b": 2, "c": 3}, "dict of length 3"),
        ({1, 2, 3}, "set of length 3"),
        ((value for value in "abc"), "generator"),
        (iter([1, 2, 3]), "list_iterator"),
        (range(3), "range"),
        (3, "int"),
        (np.zeros((1, 3)), "1 results"),
        (np.float32(3), "float32"),
        (np.array(3), "without axes"),
    ],
)
def test_a_wrong_result_fails_the_batch_and_is_named(
    returned: Any, named: str, log_lines: Callable[[], str]
) -> None:
    assert codes(through(Returns(returned), [1, 2, 3])) == [ErrorCode.WORKER_ERROR] * 3
    assert "Returns.forward returned" in log_lines()
    assert named in log_lines()
    assert "for a batch of 3" in log_lines()


def test_a_named_tuple_is_no_list_of_results() -> None:
    torch = pytest.importorskip("torch")
    maximum = torch.tensor([[1, 2], [3, 4]]).max(dim=0)  # (values, indices)
    assert codes(through(Returns(maximum), [1, 2])) == [ErrorCode.WORKER_ERROR] * 2


def test_a_coroutine_nobody_awaits_is_a_wrong_result() -> None:
    async def forward() -> None: ...

    assert codes(through(Returns(forward()), [1])) == [ErrorCode.WORKER_ERROR]


def test_none_is_a_result() -> None:
    assert through(Returns([None, 2]), [1, 2]) == [None, 2]
    done = run_batch(Returns((None, 2)), [item(1), item(2)], last=True).done
    assert answers(done) == [None, 2]


def test_rows_of_an_array_are_views_of_it() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    results = through(Returns(rows), [1, 2, 3])
    assert [list(np.asarray(row)) for row in results] == [[0, 1], [2, 3], [4, 5]]


def test_a_tensor_is_split_along_its_first_axis() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(4.0, requires_grad=True).reshape(2, 2).to(torch.bfloat16)
    first, second = through(Returns(tensor), [1, 2])
    assert torch.equal(first, torch.tensor([0, 1], dtype=torch.bfloat16))
    assert torch.equal(second, torch.tensor([2, 3], dtype=torch.bfloat16))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">f4"),
        np.arange(6)[::2],
        np.zeros((2, 0)),
        np.array(3.5),
        np.arange(2000),
    ],
)
def test_arrays_arrive_as_they_were_sent(array: np.ndarray[Any, Any]) -> None:
    class Echo(Worker):
        def forward(self, batch: list[Any]) -> list[Any]:
            return batch

    (got,) = through(Echo(), [array])
    assert isinstance(got, np.ndarray)
    assert got.shape == array.shape
    assert np.array_equal(got, array)


def test_what_cannot_travel_fails_alone_and_is_named(log_lines: Callable[[], str]) -> None:
    outcomes = codes(through(Returns([1, {"boxes": [object()]}]), [1, 2]))
    assert outcomes == [1, ErrorCode.WORKER_ERROR]
    assert "object" in log_lines()
    assert "boxes" in log_lines()


def test_large_results_travel_in_frames() -> None:
    text = "x" * 10_000
    done = run_batch(Returns([text]), [item(1)]).done
    assert values(done) == [text]
    assert done.outcomes[0].sizes  # type: ignore[union-attr]


# ------------------------------------------------------------------ first stage


def test_bad_bodies_are_the_clients_fault_and_never_reach_forward() -> None:
    plugin = Boom()
    items = [
        item(b'{"x": 1}'),
        item(b"{"),
        item(b"[]", content_type="application/json; charset=nope"),
        item(b"hi", content_type="text/plain"),
    ]
    ran = run_batch(plugin, items, first=True)
    assert codes(values(ran.done)) == [
        {"x": 1}, ErrorCode.BAD_BODY, ErrorCode.UNSUPPORTED_TYPE, "hi",
    ]  # fmt: skip
    assert plugin.sizes == [2]
    assert not ran.done.sample


def test_forward_is_not_called_with_nothing() -> None:
    plugin = Boom()
    run_batch(plugin, [item(b"{")], first=True)
    assert plugin.sizes == []


@pytest.mark.parametrize("large", [False, True])
def test_a_decode_that_asks_for_a_view_gets_one(large: bool) -> None:
    class Viewer(Worker):
        def decode(self, body: memoryview, content_type: str) -> Any:
            return [type(body).__name__, body.readonly, bytes(body[:3])]

        def forward(self, batch: list[Any]) -> list[Any]:
            return batch

    body = b"png" + bytes(10_000 if large else 10)
    payload = frames.blob(b"", [body]) if large else body
    ran = run_batch(
        Viewer(), [BatchItem(payload, frames.encode_meta(RequestMeta("id")), 1.0)], first=True
    )
    assert values(ran.done) == [["memoryview", True, b"png"]]


def test_a_decode_of_its_own_fails_item_by_item() -> None:
    class Decodes(Boom):
        def decode(self, body: bytes, content_type: str) -> Any:
            assert type(body) is bytes
            if body == b"reject":
                raise Reject("not this", status=415)
            if body == b"raise":
                raise KeyError(body)
            return super().decode(body, content_type)

    items = [item(b"1"), item(b"reject"), item(b"raise"), item(b"{"), item(b'"ok"')]
    outcomes = values(run_batch(Decodes(), items, first=True).done)
    assert outcomes[1] == Failure(ErrorCode.REJECTED, "not this", 415)
    assert codes(outcomes) == [
        1, ErrorCode.REJECTED, ErrorCode.WORKER_ERROR, ErrorCode.BAD_BODY, "ok",
    ]  # fmt: skip


def test_plugins_that_ask_learn_about_the_request() -> None:
    class Curious(Worker):
        max_batch_size = 2

        def forward(self, batch: list[Any], requests: list[RequestInfo]) -> list[Any]:
            self.requests = requests
            return batch

    plugin = Curious()
    run_batch(plugin, [item(b"1", content_type="text/plain", request_id="abc")], first=True)
    (info,) = plugin.requests
    assert (info.request_id, info.content_type, info.attempt) == ("abc", "text/plain", 1)
    assert info.deadline == 105.0


# ------------------------------------------------------------------ last stage


def test_numbers_that_json_lacks_become_null() -> None:
    row = np.array([np.nan, np.inf, -np.inf, 1.0])
    done = run_batch(Returns([row]), [item(1)], last=True).done
    assert answers(done) == [[None, None, None, 1.0]]


def test_keys_become_text_or_the_item_fails() -> None:
    done = run_batch(Returns([{1: "a"}, {(0, 1): "x"}]), [item(1), item(2)], last=True).done
    assert codes(answers(done)) == [{"1": "a"}, ErrorCode.WORKER_ERROR]


def test_content_types_are_per_item() -> None:
    items = [item(1), item(2), item(3, accept="application/msgpack"), item(4)]
    done = run_batch(Returns([b"raw", b"raw2", [1], {"a": 1}]), items, last=True).done
    assert done.content_type == "application/octet-stream"
    first, second, third, fourth = done.outcomes
    assert (first, second) == (b"raw", b"raw2")
    assert (third.content_type, third.body) == ("application/msgpack", b"\x91\x01")  # type: ignore[union-attr]
    assert (fourth.content_type, fourth.body) == ("", b'{"a":1}')  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "odd",
    [
        b"raw", np.arange(2), {"deep": np.float32(0.5)}, "\ud800", float("nan"), {1: 2}, "x" * 5000,
        Reject("no"), object(), iter(()),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", [0, 2])
def test_answers_are_the_same_whatever_else_is_in_the_batch(odd: object, place: int) -> None:
    """Where all are usual they are made at once, and else one by one."""
    usual: list[object] = [{"a": [1, None]}, "text", 2.5]
    mixed = [*usual[:place], odd, *usual[place:]]

    def outcomes(results: list[object]) -> list[object]:
        items = [item(n) for n in range(len(results))]
        done = run_batch(Returns(results), items, last=True).done
        return [_full(outcome, done.content_type) for outcome in done.outcomes]

    (alone,) = outcomes([odd])
    expected = outcomes(usual)
    expected.insert(place, alone)
    assert outcomes(mixed) == expected


def test_one_who_wants_msgpack_gets_it_among_others_who_do_not() -> None:
    items = [item(1), item(2, accept="application/msgpack"), item(3, accept="*/*")]
    done = run_batch(Returns([1, 2, 3]), items, last=True).done
    assert [_full(outcome, done.content_type) for outcome in done.outcomes] == [
        ("", b"1"), ("application/msgpack", b"\x02"), ("", b"3"),
    ]  # fmt: skip


def _full(outcome: object, usual: str) -> object:
    """An outcome with its content type, in one piece."""
    if isinstance(outcome, bytes):
        return usual, outcome
    if isinstance(outcome, Blob):
        return outcome.content_type, outcome.body + b"".join(outcome.buffers)  # type: ignore[arg-type]
    return outcome.code if isinstance(outcome, Failure) else type(outcome)


@pytest.mark.parametrize(
    ("result", "content_type", "body"),
    [
        (b"png", "image/png", b"png"),
        ("<p>", "text/html", b"<p>"),
        ({"a": 1}, "application/x+json", b'{"a":1}'),
    ],
)
def test_a_content_type_of_its_own(result: object, content_type: str, body: bytes) -> None:
    plugin = Returns([result])
    plugin.content_type = content_type
    done = run_batch(plugin, [item(1)], last=True).done
    assert (done.outcomes, done.content_type) == ([body], content_type)


@pytest.mark.parametrize(
    ("returned", "content_type"),
    [
        (b"x", "application/octet-stream"),
        ("x", "text/plain; charset=utf-8"),
        ((b"x", "a/b"), "a/b"),
    ],
)
def test_an_encode_of_its_own(returned: object, content_type: str) -> None:
    class Encodes(Returns):
        def encode(self, result: Any, accept: str) -> Any:
            if result == "bad":
                raise ValueError
            if result == "reject":
                raise Reject("no", 406)
            if result == "forged":
                return b"", "a/b\r\nSet-Cookie: x"
            return returned if result == "ok" else result

    plugin = Encodes(["ok", "bad", "reject", 5, "forged"])
    done = run_batch(plugin, [item(n) for n in range(5)], last=True).done
    assert done.content_type == content_type
    assert done.outcomes[0] == b"x"
    assert [out.code for out in done.outcomes[1:]] == [  # type: ignore[union-attr]
        ErrorCode.WORKER_ERROR,
        ErrorCode.REJECTED,
        ErrorCode.WORKER_ERROR,
        ErrorCode.WORKER_ERROR,
    ]


def test_a_large_answer_travels_in_a_frame() -> None:
    done = run_batch(Returns([b"x" * 5000]), [item(1)], last=True).done
    (outcome,) = done.outcomes
    assert outcome.sizes == [5000]  # type: ignore[union-attr]
    assert outcome.content_type == "application/octet-stream"  # type: ignore[union-attr]


def test_a_meta_that_is_none_is_no_reason_to_lose_the_batch() -> None:
    odd = item(b"1")
    odd.meta = b"\xc1"
    assert values(run_batch(Boom(), [odd], first=True).done) == [1]


def test_a_fault_of_our_own_answers_what_is_left() -> None:
    def renew() -> None:
        raise OSError("no socket")

    plugin = Boom()
    batch = Batch(1, 1, "p", False, False, [item(1), item("bad"), item(3)])
    hooks = Hooks(plugin, shape_of(plugin), SharedMemory(0))
    done = run(hooks, Work(hooks, batch, 0.0), renew)
    assert codes(values(done)) == [ErrorCode.WORKER_ERROR] * 3


def test_coroutines_are_run_by_the_same_rules() -> None:
    class Async(Worker):
        max_batch_size = 8

        async def forward(self, batch: list[Any]) -> list[Any]:
            await asyncio.sleep(0)
            if "bad" in batch:
                raise ValueError
            return batch

    plugin = Async()
    batch = Batch(1, 1, "p", False, False, [item(1), item("bad"), item(3)])
    hooks = Hooks(plugin, shape_of(plugin), SharedMemory(0))
    done = asyncio.run(run_async(hooks, Work(hooks, batch, 0.0), lambda: None, lambda: False))
    assert codes(values(done)) == [1, ErrorCode.WORKER_ERROR, 3]
