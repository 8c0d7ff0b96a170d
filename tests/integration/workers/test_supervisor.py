"""Supervisors: what they report, whom they replace, and how they end."""

import os
import signal
import time
from pathlib import Path

import pytest

from broker.wire.messages import (
    PROTOCOL_VERSION,
    Bye,
    Dismiss,
    Excuse,
    Kill,
    Refused,
    SupervisorBeat,
    SupervisorHello,
    Tend,
    TendKind,
    Welcome,
    WorkerDraining,
    WorkerHealth,
    WorkerHello,
)
from tests.integration.workers.conftest import Limits, Start
from tests.integration.workers.scripted_broker import ScriptedBroker
from workers.verdict import TRIES

# ------------------------------------------------------------------ deaths


def test_a_killed_worker_is_reported_at_once_and_replaced(
    broker: ScriptedBroker, start: Start
) -> None:
    start("echo.py")
    took_s: list[float] = []
    while min(took_s, default=1.0) > 0.4:  # until it was sooner than the next beat would have been
        assert len(took_s) < 10, took_s
        ((worker, hello),) = broker.wait_ready()
        broker.wait_for(SupervisorBeat)
        os.kill(hello.pid, signal.SIGKILL)
        killed = time.monotonic()
        assert broker.wait_report(worker, WorkerHealth.GONE) == "signal 9 (SIGKILL)"
        took_s.append(time.monotonic() - killed)
        broker.send(hello.supervisor, Excuse(broker.epoch, worker))  # the next one comes at once
    ((new, _),) = broker.wait_ready()
    assert new != worker


def test_a_request_that_kills_its_worker_is_no_end(broker: ScriptedBroker, start: Start) -> None:
    supervisor = start("echo.py")
    for _ in range(TRIES):  # as often as no worker may die before it is ready
        ((worker, hello),) = broker.wait_ready()
        broker.send_batch(worker, [{"die": True}])
        broker.wait_report(worker, WorkerHealth.GONE)
        broker.send(hello.supervisor, Excuse(broker.epoch, worker))
    broker.wait_ready()
    assert supervisor.log.count("worker's death excused") == TRIES


def test_a_stopped_worker_is_reported_and_in_the_end_replaced(
    broker: ScriptedBroker, start: Start
) -> None:
    supervisor = start("echo.py", limits=Limits(stopped_s=2.0))
    ((worker, hello),) = broker.wait_ready()
    os.kill(hello.pid, signal.SIGSTOP)
    assert broker.wait_report(worker, WorkerHealth.STOPPED) == "T"
    os.kill(hello.pid, signal.SIGCONT)
    broker.wait_report(worker, WorkerHealth.ALIVE)
    os.kill(hello.pid, signal.SIGSTOP)
    ((new, _),) = broker.wait_ready()
    assert new != worker
    assert "stopped by a signal for 2 s" in supervisor.log


def test_a_long_forward_is_no_stop(broker: ScriptedBroker, start: Start) -> None:
    start("echo.py")
    ((worker, _),) = broker.wait_ready()
    lease = broker.send_batch(worker, [{"nap": 1.5}])
    broker.wait_report(worker, WorkerHealth.ALIVE)
    broker.wait_report(worker, WorkerHealth.ALIVE)
    assert len(broker.wait_results(lease).outcomes) == 1


def test_the_broker_may_have_a_worker_killed(broker: ScriptedBroker, start: Start) -> None:
    supervisor = start("echo.py", processes=2)
    (first, hello), (second, _) = broker.wait_ready(2)
    broker.send_batch(first, [{"nap": 60}])
    broker.send(hello.supervisor, Kill(broker.epoch, first, "forward takes too long"))
    assert "SIGKILL" in broker.wait_report(first, WorkerHealth.GONE)
    ((new, _),) = broker.wait_ready()
    assert new not in (first, second)
    assert "forward takes too long" in supervisor.log


def test_what_a_worker_has_started_dies_with_it(
    broker: ScriptedBroker, start: Start, folder: Path
) -> None:
    script = folder / "parent.py"
    script.write_text(
        "import subprocess\n"
        "from millstream import Worker\n"
        "class Parent(Worker):\n"
        "    def setup(self):\n"
        "        self.child = subprocess.Popen(['sleep', '60'])\n"
        "    def forward(self, batch): return [self.child.pid for _ in batch]\n"
    )
    start(str(script))
    ((worker, hello),) = broker.wait_ready()
    results = broker.wait_results(broker.send_batch(worker, [0], last=True))
    child = int(bytes(results.outcomes[0]))  # type: ignore[arg-type]
    os.kill(child, 0)
    os.kill(hello.pid, signal.SIGKILL)
    broker.wait_report(worker, WorkerHealth.GONE)
    deadline = time.monotonic() + 20
    while Path(f"/proc/{child}/stat").exists():
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_threads_without_a_main_thread_are_no_worker(
    broker: ScriptedBroker, start: Start, folder: Path
) -> None:
    script = folder / "headless.py"
    script.write_text(
        "import ctypes, threading\n"
        "from millstream import Worker\n"
        "class Headless(Worker):\n"
        "    def setup(self):\n"
        "        threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "    def forward(self, batch): ctypes.CDLL(None).pthread_exit(0)\n"
    )
    start(str(script))
    ((worker, _),) = broker.wait_ready()
    broker.send_batch(worker, [0])
    assert broker.wait_report(worker, WorkerHealth.GONE) == "Z"
    ((new, _),) = broker.wait_ready()
    assert new != worker


# ------------------------------------------------------------------ nothing can come of it


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("setup_fails.py", "RuntimeError: no weights here"),
        ("warm_up_fails.py", "TypeError: unsupported operand"),
    ],
)
def test_a_setup_that_raises_is_told_once(
    broker: ScriptedBroker, start: Start, script: str, error: str, processes: int
) -> None:
    supervisor = start(script, processes=processes)
    assert supervisor.wait(broker) == 3
    log = supervisor.log
    assert log.count("Traceback") == 1
    assert log.count(f"\n{error}") == 1
    assert script in log
    assert "workers/runtime.py" not in log
    supervisor.wait_orphans_gone()


def test_a_script_that_cannot_be_loaded(start: Start, folder: Path) -> None:
    script = folder / "broken.py"
    script.write_text("import nowhere_to_be_found\n")
    supervisor = start(str(script), processes=3)  # no broker is needed to find that out
    assert supervisor.wait() == 3
    assert supervisor.log.count("Traceback") == 1
    assert "ModuleNotFoundError: No module named 'nowhere_to_be_found'" in supervisor.log


def test_a_process_that_ends_during_setup(start: Start) -> None:
    cases = {
        "sys.exit": "SystemExit: 1",
        "os._exit": "died 3 times before it was ready (exit code 1)",
        "kill": "died 3 times before it was ready (signal 9 (SIGKILL))",
    }
    supervisors = {how: start("setup_exits.py", environ={"HOW": how}) for how in cases}
    for how, said in cases.items():
        assert supervisors[how].wait() == 3, how
        assert said in supervisors[how].log


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"script": "none.py"}, "none.py: there is no such file"),
        ({"processes": 0}, "processes must be at least 1"),
        ({"device": "gpu"}, "must be auto, cpu, cuda"),
        ({"device": "cuda:77"}, "device 'cuda:77'"),
        ({"broker": "tcp://nowhere"}, "is no address of a broker"),
        ({"keys": "/nonexistent"}, "/nonexistent"),
        ({"model_dir": "/nonexistent"}, "/nonexistent: there is no such folder"),
    ],
)
def test_options_that_cannot_be(start: Start, options: dict[str, object], said: str) -> None:
    fields = {"script": "echo.py", **options}
    supervisor = start(**fields)
    assert supervisor.wait() == 2
    (line,) = supervisor.log.splitlines()
    assert line.startswith("millstream worker: ")
    assert said in line


def test_a_refusal_before_the_first_readiness_ends_it(folder: Path, start: Start) -> None:
    with ScriptedBroker(folder, welcomes=False) as broker:
        supervisor = start("slow_setup.py")
        peer, _ = broker.wait_for(SupervisorHello, lambda hello: hello.stage == "slowsetup")
        broker.send(peer, Refused(7, "no pipeline has a stage 'slowsetup'"))
        assert supervisor.wait(broker) == 2
        assert "millstream worker: the broker refuses this worker: no pipeline" in supervisor.log


def test_a_refused_worker_ends_its_supervisor_too(folder: Path, start: Start) -> None:
    with ScriptedBroker(folder, welcomes=False) as broker:
        supervisor = start("echo.py")
        peer, _ = broker.wait_for(WorkerHello)
        broker.send(peer, Refused(7, "unknown stage"))
        assert supervisor.wait(broker) == 2


def test_a_later_refusal_is_only_logged(broker: ScriptedBroker, start: Start) -> None:
    supervisor = start("echo.py")
    ((worker, _),) = broker.wait_ready()
    broker.wait_results(broker.send_batch(worker, [1]))
    broker.welcomes = False
    broker.restart(epoch=8)
    peer, _ = broker.wait_for(SupervisorHello)
    broker.send(peer, Refused(8, "unknown stage"))
    supervisor.wait_log(broker, "unknown stage")
    beats_on(broker)


def test_a_welcome_counts_that_came_with_a_batch(folder: Path, start: Start) -> None:
    """A worker that has something to run at once tells its supervisor before."""
    with ScriptedBroker(folder, welcomes=False) as broker:
        supervisor = start("echo.py", processes=2)
        parent, _ = broker.wait_for(SupervisorHello)
        (welcome, hello), (refused, _) = broker.wait_ready(2)
        os.kill(hello.pid, signal.SIGSTOP)
        broker.send(welcome, Welcome(broker.epoch, PROTOCOL_VERSION))
        lease = broker.send_batch(welcome, [1])
        os.kill(hello.pid, signal.SIGCONT)
        broker.wait_results(lease)
        broker.send(parent, Welcome(broker.epoch, PROTOCOL_VERSION))
        broker.send(parent, Refused(broker.epoch, "no such stage"))
        broker.send(refused, Refused(broker.epoch, "unknown stage"))
        for reason in ("no such stage", "unknown stage"):
            supervisor.wait_log(broker, reason)
        beats_on(broker)


def beats_on(broker: ScriptedBroker) -> None:
    """Until a supervisor has done so for a while from now on."""
    broker.heard.clear()
    for _ in range(2):
        broker.wait_for(SupervisorBeat)


# ------------------------------------------------------------------ ends


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_drain_ends_with_the_last_worker(
    broker: ScriptedBroker, start: Start, folder: Path, signum: signal.Signals
) -> None:
    supervisor = start("echo.py", processes=2)
    workers = broker.wait_ready(2)
    for worker, _ in workers:
        broker.serve(worker)
    lease = broker.send_nap(workers[0][0], 0.3, folder / "begun")
    supervisor.signal(signum)
    peer, _ = broker.wait_for(SupervisorBeat, lambda beat: beat.draining)
    assert broker.wait_results(lease).sample
    for worker, _ in workers:
        broker.send(worker, Dismiss(broker.epoch))
    assert supervisor.wait(broker) == 0
    said = broker.wait_for(Bye, lambda bye: bye.reason == "ended")
    assert said == (peer, Bye(broker.epoch, "ended"))
    supervisor.wait_orphans_gone()


def test_the_whole_process_group_may_be_told(broker: ScriptedBroker, start: Start) -> None:
    supervisor = start("echo.py")
    ((worker, hello),) = broker.wait_ready()
    broker.serve(worker)
    os.kill(hello.pid, signal.SIGTERM)
    os.killpg(supervisor.process.pid, signal.SIGTERM)
    broker.wait_for(WorkerDraining)
    broker.send(worker, Dismiss(broker.epoch))
    assert supervisor.wait(broker) == 0


def test_without_a_broker_nobody_waits(folder: Path, start: Start) -> None:
    supervisor = start("echo.py")
    deadline = time.monotonic() + 20
    while "worker ready" not in supervisor.log:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    supervisor.signal(signal.SIGTERM)
    assert supervisor.wait() == 0
    assert "worker killed" not in supervisor.log


def test_a_drain_during_setup(broker: ScriptedBroker, start: Start) -> None:
    supervisor = start("slow_setup.py")
    broker.wait_for(WorkerHello)
    supervisor.signal(signal.SIGTERM)
    assert supervisor.wait(broker) == 0
    assert "worker killed" not in supervisor.log
    supervisor.wait_orphans_gone()


def test_a_second_signal_ends_it_at_once(
    broker: ScriptedBroker, start: Start, folder: Path
) -> None:
    supervisor = start("echo.py")
    ((worker, _),) = broker.wait_ready()
    broker.send_nap(worker, 60, folder / "begun")
    supervisor.signal(signal.SIGTERM)
    broker.wait_for(SupervisorBeat, lambda beat: beat.draining)
    supervisor.signal(signal.SIGINT)
    assert supervisor.wait(broker) == 130
    assert "does not end" not in supervisor.log, "it has not waited for that"
    supervisor.wait_orphans_gone()


@pytest.mark.parametrize("script", ["echo.py", "slow_setup.py"])
def test_workers_do_not_survive_their_supervisor(
    broker: ScriptedBroker, start: Start, script: str
) -> None:
    supervisor = start(script, processes=2)
    for _ in range(2):
        broker.wait_for(WorkerHello)
    assert len(supervisor.worker_pids()) == 2
    supervisor.signal(signal.SIGKILL)
    supervisor.wait()
    supervisor.wait_orphans_gone()


def test_a_drained_worker_is_replaced_when_that_is_asked_for(
    broker: ScriptedBroker, start: Start
) -> None:
    start("echo.py")
    ((worker, hello),) = broker.wait_ready()
    broker.wait_results(broker.send_batch(worker, [1]))  # it is known to have been welcomed
    drain = Tend(broker.epoch, hello.index, hello.version, TendKind.DRAIN, "a look")
    broker.send(hello.supervisor, drain)
    broker.wait_for(WorkerDraining)
    broker.send(worker, Dismiss(broker.epoch))
    assert broker.wait_report(worker, WorkerHealth.GONE) == "exit code 0"
    for _ in range(2):  # it would have been replaced by now
        broker.wait_for(SupervisorBeat, lambda beat: len(beat.reports) <= 1)
    assert not [each for _, each in broker.heard if isinstance(each, WorkerHello)]
    broker.send(hello.supervisor, Tend(broker.epoch, hello.index, "", TendKind.RESTART, "back"))
    ((new, _),) = broker.wait_ready()
    assert new != worker


def test_a_restarted_worker_serves_until_its_successor_does(
    broker: ScriptedBroker, start: Start
) -> None:
    supervisor = start("echo.py")
    ((worker, hello),) = broker.wait_ready()
    broker.send(hello.supervisor, Tend(broker.epoch, 0, "", TendKind.RESTART, "by ann"))
    ((new, _),) = broker.wait_ready()
    assert new != worker
    broker.wait_for(WorkerDraining)
    broker.send(worker, Dismiss(broker.epoch))
    assert broker.wait_report(worker, WorkerHealth.GONE) == "exit code 0"
    assert "by ann" in supervisor.log
    for index, version in ((7, ""), (0, "other")):  # nobody is there
        broker.send(hello.supervisor, Tend(broker.epoch, index, version, TendKind.DRAIN, ""))
    broker.pump(0.3)
    assert len(broker.wait_results(broker.send_batch(new, [1])).outcomes) == 1
