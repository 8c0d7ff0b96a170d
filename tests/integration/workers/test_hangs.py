"""Workers that hang: in setup, in forward and in teardown, and in every way that a process can."""

import os
import signal
import time
from pathlib import Path

import pytest

from broker.wire.messages import Dismiss, Kill, WorkerDraining, WorkerHealth, WorkerHello
from tests.integration.workers.conftest import Limits, Start
from tests.integration.workers.scripted_broker import ScriptedBroker
from tests.plugins.hangs import WAYS
from workers.verdict import TRIES


def test_no_way_to_hang_holds_up_the_end(broker: ScriptedBroker, start: Start) -> None:
    """One that is in state D is slow, and not dead, until then."""
    crews = [
        start("hangs.py", processes=len(WAYS), environ={"HANGS_IN": where})
        for where in ("setup", "forward")
    ]
    for worker, _ in broker.wait_ready(len(WAYS)):
        broker.send_batch(worker, [1])
    broker.wait_states({"D": 2, "T": 2})
    began = time.monotonic()
    for crew in crews:
        crew.signal(signal.SIGTERM)
    assert [crew.wait(broker) for crew in crews] == [0, 0]
    assert time.monotonic() - began < 15.0
    for crew in crews:
        crew.wait_orphans_gone()


def test_a_teardown_that_hangs(broker: ScriptedBroker, start: Start) -> None:
    limits = Limits(teardown_s=0.2)
    start("hangs.py", environ={"HANGS_IN": "teardown"}, limits=limits, max_age_s=0.1)
    ((worker, _),) = broker.wait_ready()
    broker.wait_ready()  # its successor
    assert broker.wait_for(WorkerDraining)[0] == worker
    broker.send(worker, Dismiss(broker.epoch))
    how = broker.wait_report(worker, WorkerHealth.GONE)
    assert how == "signal 9 (SIGKILL): does not end its teardown for 0.2 s"


def test_a_setup_that_hangs_is_killed_and_in_the_end_given_up(
    broker: ScriptedBroker, start: Start
) -> None:
    supervisor = start("slow_setup.py")
    reason = "setup took longer than setup_timeout_s = 600"
    for _ in range(TRIES):
        worker, hello = broker.wait_for(WorkerHello)
        broker.send(hello.supervisor, Kill(broker.epoch, worker, reason))
    assert supervisor.wait(broker) == 3
    (said,) = [line for line in supervisor.log.splitlines() if "millstream worker:" in line]
    assert f"every worker process died {TRIES} times before it was ready" in said
    assert f"signal 9 (SIGKILL): {reason}" in said


def test_an_import_that_hangs(broker: ScriptedBroker, start: Start, folder: Path) -> None:
    script = folder / "endless.py"
    script.write_text("import time\ntime.sleep(600)\n")
    supervisor = start(str(script), limits=Limits(import_s=0.1))
    assert supervisor.wait(broker) == 3
    assert "(SIGKILL): does not get its script imported for 0.1 s)" in supervisor.log


def test_one_that_is_stopped_in_setup_is_replaced(broker: ScriptedBroker, start: Start) -> None:
    start("slow_setup.py", limits=Limits(stopped_s=0.2))
    worker, hello = broker.wait_for(WorkerHello)
    os.kill(hello.pid, signal.SIGSTOP)
    assert broker.wait_report(worker, WorkerHealth.STOPPED) == "T"
    again, _ = broker.wait_for(WorkerHello, lambda hello: not hello.ready)
    assert again != worker


@pytest.mark.parametrize("class_name", ["Sticky", "StickyAsync"])
def test_one_that_fails_whatever_it_is_given_is_replaced(
    broker: ScriptedBroker, start: Start, class_name: str
) -> None:
    """Rejections in between show nothing: they are made before the device is asked."""
    supervisor = start("sticky.py", class_name=class_name)
    ((worker, _),) = broker.wait_ready()
    for value in ({"poison": True}, {"reject": True}, {}, {"reject": True}, {}):
        broker.wait_results(broker.send_batch(worker, [value]))
    broker.wait_for(WorkerDraining)
    broker.send(worker, Dismiss(broker.epoch))
    ((new, _),) = broker.wait_ready()
    assert new != worker
    results = broker.wait_results(broker.send_batch(new, [{}]))
    assert results.outcomes == [b"\x80"]
    assert "forward fails whatever it is given" in supervisor.log
