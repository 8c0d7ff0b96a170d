"""Workers that have served their time are recycled, and there is somebody to serve all along."""

import os
import re
import signal
from pathlib import Path

from broker.wire.messages import (
    Dismiss,
    SupervisorBeat,
    WorkerDraining,
    WorkerHealth,
    WorkerHello,
)
from tests.integration.workers.conftest import Limits, Start
from tests.integration.workers.scripted_broker import ScriptedBroker


def serve(broker: ScriptedBroker, worker: bytes) -> None:
    """One batch."""
    assert broker.wait_results(broker.send_batch(worker, [1])).outcomes == [b"\x01"]


def wait_both_alive(broker: ScriptedBroker, *workers: bytes) -> None:
    """Until one beat reports all of these as alive."""

    def has_all(beat: SupervisorBeat) -> bool:
        alive = {r.worker for r in beat.reports if r.health == WorkerHealth.ALIVE}
        return alive.issuperset(workers)

    broker.wait_for(SupervisorBeat, has_all)


def test_a_successor_is_ready_before_the_other_leaves_one_post_at_a_time(
    broker: ScriptedBroker, start: Start, folder: Path
) -> None:
    environ = {"GATE": str(folder)}
    supervisor = start("gated.py", environ=environ, processes=2, max_batches=2)
    posts = {hello.index: worker for worker, hello in broker.wait_ready(2)}
    shut = folder / "shut"
    shut.touch()
    for worker in posts.values():
        serve(broker, worker)
        serve(broker, worker)
    for _ in posts:
        new, hello = broker.wait_for(WorkerHello, lambda hello: not hello.ready)
        old = posts[hello.index]
        serve(broker, old)
        wait_both_alive(broker, old, new)
        shut.unlink()
        assert broker.wait_ready()[0][0] == new
        assert broker.wait_for(WorkerDraining)[0] == old
        shut.touch()
        broker.send(old, Dismiss(broker.epoch))
        assert broker.wait_report(old, WorkerHealth.GONE) == "exit code 0"
        serve(broker, new)
    assert len({hello.pid for hello in broker.every_hello}) == 4
    events = re.findall(r'event="worker (is recycled|ended)" .*?index=(\d)', supervisor.log)
    first, second = events[0][1], events[2][1]
    assert events == [
        ("is recycled", first), ("ended", first), ("is recycled", second), ("ended", second),
    ]  # fmt: skip
    assert "it has run 2 batches, --max-batches = 2" in supervisor.log


def test_what_happens_while_a_successor_loads(
    broker: ScriptedBroker, start: Start, folder: Path
) -> None:
    limits = Limits(retry_s=0.5)
    supervisor = start("gated.py", environ={"GATE": str(folder)}, max_batches=1, limits=limits)
    ((first, hello),) = broker.wait_ready()

    (folder / "full").touch()  # there is no room for two
    serve(broker, first)
    supervisor.wait_log(broker, "no successor got ready, the worker stays")
    serve(broker, first)

    (folder / "shut").touch()
    (folder / "full").unlink()
    second, _ = broker.wait_for(WorkerHello, lambda hello: not hello.ready)
    os.kill(hello.pid, signal.SIGKILL)  # and its successor is on its way
    broker.wait_report(first, WorkerHealth.GONE)
    (folder / "shut").unlink()
    ((ready, _),) = broker.wait_ready()
    assert ready == second

    (folder / "shut").touch()
    serve(broker, second)
    third, _ = broker.wait_for(WorkerHello, lambda hello: not hello.ready)
    wait_both_alive(broker, second, third)
    supervisor.signal(signal.SIGTERM)
    assert broker.wait_for(WorkerDraining)[0] == second
    broker.send(second, Dismiss(broker.epoch))
    assert supervisor.wait(broker) == 0
    supervisor.wait_orphans_gone()


def test_one_that_takes_too_much_memory_drains_first(broker: ScriptedBroker, start: Start) -> None:
    supervisor = start("hungry.py", class_name="Glutton", max_rss_bytes=200 << 20)
    ((worker, _),) = broker.wait_ready()
    broker.wait_results(broker.send_batch(worker, [{"leak": 250}]))
    assert broker.wait_for(WorkerDraining)[0] == worker
    assert len({hello.pid for hello in broker.every_hello}) == 1
    broker.send(worker, Dismiss(broker.epoch))
    ((new, _),) = broker.wait_ready()
    assert new != worker
    assert re.search(r"it takes 2\d\d MiB, --max-rss = 200 MiB", supervisor.log)
