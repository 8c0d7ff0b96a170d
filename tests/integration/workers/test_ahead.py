"""Batches that follow on one another: the next is read while `forward` runs."""

import ctypes
import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq

from broker.wire import frames
from broker.wire.messages import Batch, BatchItem, Bye, Dismiss, Failure, Renew, WorkerDraining
from tests.integration.workers.conftest import Start
from tests.integration.workers.scripted_broker import ScriptedBroker, value_of
from workers.ahead import IN_A_ROW, ReadAhead
from workers.api import Worker
from workers.checks import shape_of
from workers.link import Link, make_socket
from workers.memory import SharedMemory
from workers.work import Hooks

READER = "read-ahead"


def results_of(broker: ScriptedBroker, lease: int) -> list[Any]:
    return [value_of(outcome) for outcome in broker.wait_results(lease).outcomes]


def test_the_next_batch_is_read_while_forward_runs(broker: ScriptedBroker, start: Start) -> None:
    start("threads.py", class_name="Threads")
    ((worker, _),) = broker.wait_ready()
    leases = [broker.send_batch(worker, [{"n": n, "nap": 0.02}, {"n": -n}]) for n in range(1, 17)]
    found = [results_of(broker, lease) for lease in leases]  # in the order in which they came
    assert [[item["n"] for item in batch] for batch in found] == [[n, -n] for n in range(1, 17)]
    assert READER not in found[0][0]["threads"]  # nobody had been waiting for it
    assert READER in found[-1][0]["threads"]


def test_results_leave_before_the_next_call_returns(
    broker: ScriptedBroker, start: Start, folder: Path
) -> None:
    start("threads.py", class_name="Threads")
    ((worker, _),) = broker.wait_ready()
    told = [folder / f"{n}" for n in range(12)]
    leases = [broker.send_batch(worker, [{"nap": 0.005}])]
    for path in told:
        leases.append(broker.send_batch(worker, [{"nap": 0.005, "until": str(path)}]))
        broker.wait_results(leases[-2])
        path.touch()
    broker.wait_results(leases[-1])


def test_which_batch_was_begun_is_told_when_it_has_killed(
    broker: ScriptedBroker, start: Start
) -> None:
    """It may take the results of the one before along."""
    start("threads.py", class_name="Threads")
    ((worker, _),) = broker.wait_ready()
    for _ in range(8):
        broker.send_batch(worker, [{"nap": 0.01}])
    killer = broker.send_batch(worker, [{"die": True}])
    assert broker.wait_death(worker).begun == killer


def test_lone_batches_need_no_reader(broker: ScriptedBroker, start: Start) -> None:
    start("threads.py", class_name="Threads")
    ((worker, _),) = broker.wait_ready()
    found = [results_of(broker, broker.send_batch(worker, [{"nap": 0.01}])) for _ in range(3)]
    assert not any(READER in item["threads"] for batch in found for item in batch)


def test_no_thread_no_reader(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    plugin = Worker()
    hooks = Hooks(plugin, shape_of(plugin), SharedMemory(0))
    link = Link(make_socket(f"ipc://{folder}/nobody", b"w", None))
    with ReadAhead(hooks, link, lambda: None) as ahead, monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(IN_A_ROW + 2):
            assert not ahead.begin(1.0)
            ahead.end()
    link.close()


def test_results_are_left_to_the_reader_unless_forward_keeps_it_from_running(folder: Path) -> None:
    nap = ctypes.CDLL(None).usleep
    hold = ctypes.PyDLL(None).usleep  # the same, and does not let go of Python's lock
    plugin = Worker()
    hooks = Hooks(plugin, shape_of(plugin), SharedMemory(0))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    router.bind(f"ipc://{folder}/router")
    link = Link(make_socket(f"ipc://{folder}/router", b"w", None))
    until = time.monotonic() + 10.0
    while not router.poll(10) and time.monotonic() < until:
        link.wait(0.0)
        link.send(Bye(1))  # is dropped until they are connected
    (batch,) = frames.encode(Batch(1, 1, "p", False, False, [BatchItem(b"\xc0", b"", 1.0)]))
    sent = []
    with ReadAhead(hooks, link, lambda: sent.append(threading.current_thread().name)) as ahead:

        def turn(forward: Callable[[int], object]) -> bool:
            router.send_multipart([b"w", batch])
            is_out = ahead.begin(1.0)
            forward(10_000)
            ahead.end()
            list(link.receive())
            return is_out

        assert not ahead.sends_after(1.0), "nobody knows yet"
        until = time.monotonic() + 20.0
        while not ahead.sends_after(1.0) and time.monotonic() < until:
            turn(nap)
        assert ahead.sends_after(1.0)
        assert not ahead.sends_after(0.0), "such a call is over before it has begun"
        assert set(sent) == {READER}
        assert turn(hold)
        assert not ahead.sends_after(1.0)
    link.close()
    router.close(0)
    context.term()


def test_a_worker_is_woken_when_it_asked_to_be(broker: ScriptedBroker, start: Start) -> None:
    start("threads.py", class_name="Threads")
    ((worker, _),) = broker.wait_ready()
    (found,) = results_of(broker, broker.send_batch(worker, [{}]))
    assert found["slack_ns"] == 1


@pytest.mark.parametrize("takes", ["nap", "spin"])
def test_what_forward_does_to_a_batch_is_told_in_time(
    broker: ScriptedBroker, start: Start, takes: str
) -> None:
    """Halves are renewed while the reader is out; one that cannot run in time is called back."""
    start("threads.py", class_name="Threads")
    ((worker, _),) = broker.wait_ready()
    plain = [broker.send_batch(worker, [{"n": n, takes: 0.01}]) for n in range(4)]
    halved = broker.send_batch(worker, [{takes: 0.01}, {"bad": True}])
    after = [broker.send_batch(worker, [{"n": n, takes: 0.01}]) for n in range(4)]
    for lease in plain:
        broker.wait_results(lease)
    for _ in range(2):
        assert broker.wait_for(Renew) == (worker, Renew(broker.epoch, halved))
    good, bad = broker.wait_results(halved).outcomes
    assert not isinstance(good, Failure)
    assert isinstance(bad, Failure)
    assert [results_of(broker, lease)[0]["n"] for lease in after] == [0, 1, 2, 3]


def test_a_hook_of_the_plugin_stays_in_its_thread(broker: ScriptedBroker, start: Start) -> None:
    start("threads.py", class_name="Decoding")
    ((worker, _),) = broker.wait_ready()
    leases = [
        broker.send_batch(worker, [b'{"nap": 0.01}'], first=True, last=True) for _ in range(16)
    ]
    answers = [broker.wait_results(lease).outcomes[0] for lease in leases]
    found = [json.loads(answer) for answer in answers if isinstance(answer, bytes)]
    assert [item["thread"] for item in found] == ["MainThread"] * 16
    assert READER in found[-1]["threads"]


def test_bodies_that_cannot_be_read_fail_alone(broker: ScriptedBroker, start: Start) -> None:
    start("threads.py", class_name="Threads")
    ((worker, _),) = broker.wait_ready()
    bodies: list[object] = [b'{"nap": 0.01}', b"{", b"{}"]
    leases = [broker.send_batch(worker, bodies, first=True, last=True) for _ in range(8)]
    for lease in leases:
        outcomes = broker.wait_results(lease).outcomes
        assert [isinstance(outcome, Failure) for outcome in outcomes] == [False, True, False]


def test_a_drain_gives_back_what_was_read_ahead(broker: ScriptedBroker, start: Start) -> None:
    supervisor = start("threads.py", class_name="Threads")
    ((worker, _),) = broker.wait_ready()
    naps = [0.02] * 7 + [1.0] + [0.02] * 3  # it is told in the long one
    leases = [broker.send_batch(worker, [{"nap": nap}]) for nap in naps]
    for lease in leases[:7]:
        broker.wait_results(lease)
    supervisor.process.send_signal(signal.SIGTERM)
    told = broker.wait_for(WorkerDraining)[1].returned
    assert told
    assert told == leases[-len(told) :]
    broker.send(worker, Dismiss(broker.epoch))
    broker.wait_for(Bye)
    assert supervisor.process.wait(20) == 0
