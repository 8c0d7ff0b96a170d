"""Real worker processes and what they say to their broker."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    Batch,
    Bye,
    Dismiss,
    Failure,
    Renew,
    Results,
    SupervisorHello,
    Who,
    WorkerBeat,
    WorkerDraining,
    WorkerHello,
)
from tests.integration.workers.conftest import Start
from tests.integration.workers.scripted_broker import ScriptedBroker, value_of


def test_a_worker_joins_and_answers(broker: ScriptedBroker, start: Start) -> None:
    supervisor = start("echo.py", version="v1", pipeline="p")
    _, early = broker.wait_for(WorkerHello)
    assert not early.ready
    ((worker, hello),) = broker.wait_ready()
    assert worker[:1] == b"w"
    assert len(worker) == 17
    assert (hello.stage, hello.pipeline, hello.version) == ("echo", "p", "v1")
    assert (hello.max_batch_size, hello.plugin, hello.device) == (8, "Echo", "cpu")
    assert [size for size, _ in hello.timings] == [1, 8]
    assert hello.pid in supervisor.worker_pids()
    lease = broker.send_batch(worker, [1, "two", {"three": [3.0]}, None])
    results = broker.wait_results(lease)
    assert [value_of(out) for out in results.outcomes] == [1, "two", {"three": [3.0]}, None]
    assert results.sample
    assert 0 < results.run_s < 1


def test_the_supervisor_learns_the_stage(broker: ScriptedBroker, start: Start) -> None:
    start("echo.py")
    peer, first = broker.wait_for(SupervisorHello)
    assert first.stage == ""
    again, hello = broker.wait_for(SupervisorHello)
    assert again == peer
    assert hello.stage == "echo"
    broker.wait_ready()
    assert {hello.supervisor for hello in broker.every_hello} == {peer}


def test_only_the_guilty_item_fails(broker: ScriptedBroker, start: Start) -> None:
    supervisor = start("echo.py")
    ((worker, _),) = broker.wait_ready()
    lease = broker.send_batch(worker, [1, 2, {"bad": True}, 4])
    for _ in range(4):
        assert broker.wait_for(Renew) == (worker, Renew(broker.epoch, lease))
    results = broker.wait_results(lease)
    assert [isinstance(out, Failure) for out in results.outcomes] == [False, False, True, False]
    assert not results.sample
    assert "ValueError: bad item" in supervisor.log
    assert "request_id=request-2" in supervisor.log


def test_large_arrays_come_back_as_they_went(broker: ScriptedBroker, start: Start) -> None:
    start("echo.py")
    ((worker, _),) = broker.wait_ready()
    arrays: list[Any] = [np.arange(300_000, dtype=np.float32), np.arange(2000), np.zeros((0, 3))]
    results = broker.wait_results(broker.send_batch(worker, arrays))
    for sent, outcome in zip(arrays, results.outcomes, strict=True):
        got = value_of(outcome)
        assert got.dtype == sent.dtype
        assert np.array_equal(got, sent)


def test_bodies_of_a_whole_pipeline(broker: ScriptedBroker, start: Start) -> None:
    start("echo.py")
    ((worker, _),) = broker.wait_ready()
    lease = broker.send_batch(worker, [b'{"a": NaN}', b'{"a":1}'], first=True, last=True)
    bad, good = broker.wait_results(lease).outcomes
    assert isinstance(bad, Failure)
    assert bad.code == ErrorCode.BAD_BODY
    assert good == b'{"a":1}'


def test_bytes_that_are_no_message_do_no_harm(broker: ScriptedBroker, start: Start) -> None:
    start("echo.py")
    ((worker, _),) = broker.wait_ready()
    for parts in ([b""], [b"\xc1"], [b"\x92\x29\x01"], [b"\x90", b"x"], [b"x"] * 30):
        broker._socket.send_multipart([worker, *parts])
    broker.send(worker, Batch(99, 1, "p", False, False, []))  # of an epoch that never was
    assert broker.wait_results(broker.send_batch(worker, [1])).outcomes == [b"\x01"]


# ------------------------------------------------------------------ a broker that comes and goes


def test_a_new_broker_finds_its_workers_again(broker: ScriptedBroker, start: Start) -> None:
    supervisor = start("echo.py")
    ((worker, _),) = broker.wait_ready()
    broker.restart(epoch=8)
    again, hello = broker.wait_for(
        WorkerHello,
    )
    assert (again, hello.ready) == (worker, True)
    assert [size for size, _ in hello.timings] == [1, 8]
    assert broker.wait_results(broker.send_batch(worker, [1])).epoch == 8
    assert supervisor.process.poll() is None


def test_an_idle_worker_beats_and_answers_who_at_once(broker: ScriptedBroker, start: Start) -> None:
    start("echo.py")
    ((worker, _),) = broker.wait_ready()
    assert broker.wait_for(WorkerBeat) == (worker, WorkerBeat(7, []))
    asked = time.monotonic()
    broker.send(worker, Who(9))
    _, hello = broker.wait_for(WorkerHello)
    assert hello.ready
    assert time.monotonic() - asked < 5.0


def test_results_of_another_epoch_are_sent_all_the_same(
    broker: ScriptedBroker, start: Start, folder: Path
) -> None:
    start("echo.py")
    ((worker, _),) = broker.wait_ready()
    lease = broker.send_nap(worker, 0.4, folder / "begun")
    broker.restart(epoch=8)
    results = broker.wait_results(lease)
    assert (results.epoch, len(results.outcomes)) == (7, 1)


def test_workers_wait_for_a_broker_that_comes_later(folder: Path, start: Start) -> None:
    supervisor = start("echo.py")
    deadline = time.monotonic() + 20
    while "worker ready" not in supervisor.log:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with ScriptedBroker(folder) as late:
        ((worker, _),) = late.wait_ready()
        assert len([hello for hello in late.every_hello if hello.ready]) == 1  # none queued up
        assert late.wait_results(late.send_batch(worker, [1])).outcomes == [b"\x01"]


# ------------------------------------------------------------------ drain


def test_a_worker_told_to_end_finishes_what_it_runs(
    broker: ScriptedBroker, start: Start, folder: Path
) -> None:
    supervisor = start("echo.py")
    ((worker, hello),) = broker.wait_ready()
    running = broker.send_nap(worker, 0.6, folder / "begun")
    ahead = broker.send_batch(worker, [2])
    os.kill(hello.pid, signal.SIGTERM)
    assert broker.wait_results(running).lease == running
    _, draining = broker.wait_for(WorkerDraining)
    assert draining.returned == [ahead]
    assert broker.wait_results(broker.send_batch(worker, [3])).outcomes == [b"\x03"]
    broker.send(worker, Dismiss(broker.epoch))
    assert broker.wait_report(worker, 2) == "exit code 0"
    assert "torn down" in supervisor.log
    ((new, _),) = broker.wait_ready()  # it was one worker that was asked to end, not the supervisor
    assert new != worker


def test_a_second_sigterm_ends_it_at_once(broker: ScriptedBroker, start: Start) -> None:
    start("echo.py")
    ((worker, hello),) = broker.wait_ready()
    broker.serve(worker)
    os.kill(hello.pid, signal.SIGTERM)
    broker.wait_for(WorkerDraining)
    os.kill(hello.pid, signal.SIGTERM)  # too close to the first to be another wish
    told = time.monotonic()
    broker.wait_for(WorkerDraining)  # the next one, a second later: it goes on
    while time.monotonic() < told + 1.1:
        broker.pump(0.02)
    os.kill(hello.pid, signal.SIGTERM)
    assert broker.wait_report(worker, 2) == "exit code 143"


# ------------------------------------------------------------------ several batches in flight


def test_an_async_worker_runs_several_batches_at_once(broker: ScriptedBroker, start: Start) -> None:
    supervisor = start("slow_async.py")
    ((worker, hello),) = broker.wait_ready()
    assert (hello.stage, hello.concurrency) == ("slow", 3)
    leases = [broker.send_batch(worker, [n]) for n in range(3)]
    results = [broker.wait_for(Results)[1] for _ in leases]
    assert sorted(r.lease for r in results) == leases
    assert [value_of(r.outcomes[0]) for r in results] == [3, 3, 3]
    assert not any(r.sample for r in results)
    supervisor.signal(signal.SIGTERM)
    broker.wait_for(WorkerDraining)
    broker.send(worker, Dismiss(broker.epoch))
    assert supervisor.wait(broker) == 0
    assert "torn down" in supervisor.log


def test_an_async_worker_gives_back_what_is_beyond_its_concurrency(
    broker: ScriptedBroker, start: Start
) -> None:
    start("slow_async.py")
    ((worker, hello),) = broker.wait_ready()
    running = [broker.send_batch(worker, [n]) for n in range(2)]
    broker.wait_for(WorkerBeat, lambda beat: beat.holding == running)
    os.kill(hello.pid, signal.SIGTERM)
    assert broker.wait_for(WorkerDraining)[1].returned == []
    opening = broker.send_batch(worker, ["open"])
    results = [broker.wait_for(Results)[1].lease for _ in range(3)]
    assert sorted(results) == [*running, opening]


@pytest.mark.parametrize("version", ["", "v2"])
def test_where_a_worker_runs(
    broker: ScriptedBroker, start: Start, version: str, folder: Path
) -> None:
    (folder / "workers.py").write_text("raise SystemError('not yours')")
    supervisor = start("placed.py", version=version, device="cpu", processes=2)
    for worker, hello in broker.wait_ready(2):
        results = broker.wait_results(broker.send_batch(worker, [0]))
        placed = value_of(results.outcomes[0])
        assert isinstance(placed, dict)
        assert placed["device"] == "cpu"
        assert placed["visible"] == ""
        assert placed["version"] == version
        assert placed["index"] == hello.index
        assert placed["model_dir"].endswith("tests/plugins/model")
        assert placed["pgid"] == placed["pid"] == hello.pid
        assert not placed["cwd_on_path"]
        assert f"omp_threads={placed['omp']}" in supervisor.log


def test_bye_is_said(broker: ScriptedBroker, start: Start) -> None:
    supervisor = start("echo.py")
    ((worker, _),) = broker.wait_ready()
    broker.wait_results(broker.send_batch(worker, [1]))  # it is known to have been welcomed
    supervisor.signal(signal.SIGTERM)
    broker.wait_for(WorkerDraining)
    broker.send(worker, Dismiss(broker.epoch))
    assert supervisor.wait(broker) == 0
    peers = {broker.wait_for(Bye)[0] for _ in range(2)}
    assert worker in peers
    assert len(peers) == 2
