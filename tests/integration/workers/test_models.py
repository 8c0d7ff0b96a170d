"""A supervisor with a model repository: what it loads, reports, keeps, and lets go."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.wire.messages import (
    Beat,
    Dismiss,
    Kill,
    Refused,
    SupervisorBeat,
    SupervisorHello,
    VersionState,
    Want,
    WorkerDraining,
    WorkerHealth,
    WorkerHello,
)
from tests.integration.workers.conftest import Limits, Start, Supervisor
from tests.integration.workers.scripted_broker import ScriptedBroker, value_of

FOUND, LOADING, READY = VersionState.FOUND, VersionState.LOADING, VersionState.READY
FAILED, RETIRING = VersionState.FAILED, VersionState.RETIRING


class Repository:
    """Versions on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()

    def put(self, version: str, how: str = "fine", *, marker: bool = True) -> Path:
        """A version, made elsewhere and moved into place."""
        made = self.root.parent / f"made-{version}"
        made.mkdir()
        (made / "how").write_text(how)
        if marker:
            (made / "READY").touch()
        return made.rename(self.root / version)


@pytest.fixture
def models(folder: Path) -> Repository:
    return Repository(folder / "models")


Serve = Callable[..., Supervisor]


@pytest.fixture
def serve(folder: Path, models: Repository, start: Start) -> Serve:
    """Starts a supervisor for the repository."""

    def serve(**options: object) -> Supervisor:
        fields = {
            "models": str(models.root),
            "keep_warm_s": 0.0,
            "limits": Limits(grace_s=0.0),
            "environ": {"GATE": str(folder)},
            **options,
        }
        return start("stocked.py", **fields)

    return serve


def wait_states(broker: ScriptedBroker, **states: VersionState) -> SupervisorBeat:
    """The first beat that reports these and no others: v1=READY, v2=…"""
    wanted = {name.removeprefix("v"): state for name, state in states.items()}
    return broker.wait_for(
        SupervisorBeat, lambda beat: {r.version: r.state for r in beat.versions} == wanted
    )[1]


def ready(broker: ScriptedBroker, version: str) -> tuple[bytes, WorkerHello]:
    """The next worker of this version that is ready."""
    return broker.wait_for(WorkerHello, lambda hello: hello.ready and hello.version == version)


def ask(broker: ScriptedBroker, worker: bytes) -> list[str]:
    """What it answers: version, folder, and what its files say."""
    (outcome,) = broker.wait_results(broker.send_batch(worker, [0])).outcomes
    answer: list[str] = value_of(outcome)
    return answer


def want(broker: ScriptedBroker, hello: WorkerHello, *versions: str) -> None:
    broker.send(hello.supervisor, Want(broker.epoch, list(versions)))


def dismiss(broker: ScriptedBroker) -> bytes:
    """The next worker that wants to leave may."""
    worker, _ = broker.wait_for(WorkerDraining)
    broker.send(worker, Dismiss(broker.epoch))
    return worker


def dismiss_all(broker: ScriptedBroker, workers: set[bytes]) -> None:
    """Just these want to leave; each says so until it may."""
    dismissed: set[bytes] = set()
    while dismissed != workers:
        dismissed.add(dismiss(broker))
        assert dismissed <= workers


# ------------------------------------------------------------------ taking over


def test_a_version_that_comes_is_loaded_beside_and_takes_over(
    broker: ScriptedBroker, models: Repository, serve: Serve
) -> None:
    models.put("1")
    models.put("2")
    supervisor = serve(processes=2)
    _, hello = broker.wait_for(SupervisorHello)
    assert (hello.has_models, hello.version) == (True, "")
    second, said = ready(broker, "2")
    other, _ = ready(broker, "2")
    assert ask(broker, second) == ["2", "2", "fine"]
    wait_states(broker, v1=FOUND, v2=READY)
    want(broker, said, "2")

    models.put("3")
    third, said = ready(broker, "3")
    ready(broker, "3")
    wait_states(broker, v1=FOUND, v2=READY, v3=READY)
    assert ask(broker, second) == ["2", "2", "fine"]
    assert ask(broker, third) == ["3", "3", "fine"]
    want(broker, said, "3")
    wait_states(broker, v1=FOUND, v2=RETIRING, v3=READY)
    dismiss_all(broker, {second, other})
    assert broker.wait_report(second, WorkerHealth.GONE) == "exit code 0"
    wait_states(broker, v1=FOUND, v2=FOUND, v3=READY)
    assert ask(broker, third) == ["3", "3", "fine"]
    assert len(supervisor.worker_pids()) == 2


def test_the_version_before_is_kept_warm_and_is_back_at_once(
    broker: ScriptedBroker, models: Repository, serve: Serve
) -> None:
    models.put("1")
    serve(keep_warm_s=600.0)
    first, said = ready(broker, "1")
    want(broker, said, "1")
    models.put("2")
    second, _ = ready(broker, "2")
    want(broker, said, "2")
    wait_states(broker, v1=READY, v2=READY)
    broker.wait_states({"S": 2})  # after that it still lives, and serves
    assert ask(broker, first) == ["1", "1", "fine"]
    models.put("3")
    ready(broker, "3")
    want(broker, said, "3")
    assert dismiss(broker) == first
    wait_states(broker, v1=FOUND, v2=READY, v3=READY)
    assert ask(broker, second) == ["2", "2", "fine"]


def test_what_the_broker_wants_is_loaded_whatever_else_loads(
    broker: ScriptedBroker, models: Repository, serve: Serve, folder: Path
) -> None:
    (folder / "shut-3").touch()
    for version in ("1", "2", "3"):
        models.put(version)
    serve()
    _, said = broker.wait_for(WorkerHello, lambda hello: hello.version == "3")
    want(broker, said, "1", "7")
    first, _ = ready(broker, "1")
    wait_states(broker, v1=READY, v2=FOUND, v3=LOADING)
    (folder / "shut-3").unlink()
    ready(broker, "3")
    wait_states(broker, v1=READY, v2=FOUND, v3=READY)
    assert ask(broker, first) == ["1", "1", "fine"]


def test_nothing_goes_before_a_broker_of_this_life_has_said_what_it_wants(
    broker: ScriptedBroker, models: Repository, serve: Serve
) -> None:
    models.put("1")
    supervisor = serve()
    first, said = ready(broker, "1")
    want(broker, said, "1")
    models.put("2")
    ready(broker, "2")
    broker.restart(epoch=8)
    beats = [broker.wait_for(SupervisorBeat, lambda beat: beat.epoch == 8)[1] for _ in range(4)]
    assert all([r.state for r in beat.versions] == [READY, READY] for beat in beats)
    assert "retires" not in supervisor.log
    want(broker, said, "2")
    assert dismiss(broker) == first
    wait_states(broker, v1=FOUND, v2=READY)


# ------------------------------------------------------------------ failures


def test_where_the_newest_fails_the_one_before_is_loaded(
    broker: ScriptedBroker, models: Repository, serve: Serve
) -> None:
    models.put("1")
    models.put("2", "raise")
    supervisor = serve(processes=2)
    _, said = ready(broker, "1")
    beat = wait_states(broker, v1=READY, v2=FAILED)
    assert beat.versions[1].detail == "setup failed: RuntimeError: version 2 has no weights"
    assert supervisor.log.count("Traceback") == 1
    assert supervisor.log.count("\nRuntimeError: version 2 has no weights") == 1
    assert any(r.failure.startswith("version 2: setup failed") for r in beat.reports)

    want(broker, said, "1", "2")  # somebody asks for it all the same
    wait_states(broker, v1=READY, v2=LOADING)
    wait_states(broker, v1=READY, v2=FAILED)
    (models.root / "2/how").write_text("repaired")
    second, _ = ready(broker, "2")
    assert ask(broker, second) == ["2", "2", "repaired"]
    wait_states(broker, v1=READY, v2=READY)
    assert len(supervisor.worker_pids()) == 4


def test_a_version_whose_processes_die_has_failed(
    broker: ScriptedBroker, models: Repository, serve: Serve
) -> None:
    models.put("1")
    serve()
    first, _ = ready(broker, "1")
    models.put("2", "die")
    beat = wait_states(broker, v1=READY, v2=FAILED)
    assert "(exit code 7)" in beat.versions[1].detail
    assert ask(broker, first) == ["1", "1", "fine"]


def test_where_every_version_fails_before_any_was_ready_it_ends(
    broker: ScriptedBroker, models: Repository, serve: Serve
) -> None:
    models.put("1", "raise")
    models.put("2", "raise")
    supervisor = serve(processes=2)
    assert supervisor.wait(broker) == 3
    log = supervisor.log
    assert log.count("Traceback") == 2  # each its own
    said = "version 2: setup failed: RuntimeError: version 2 has no weights"
    assert f"\nmillstream worker: no version can be loaded; {said}\n" in log
    supervisor.wait_orphans_gone()


def test_a_script_that_cannot_be_loaded_is_not_tried_with_each_version(
    broker: ScriptedBroker, models: Repository, start: Start, folder: Path
) -> None:
    script = folder / "broken.py"
    script.write_text("import nowhere_to_be_found\n")
    models.put("1")
    models.put("2")
    supervisor = start(str(script), models=str(models.root))
    assert supervisor.wait(broker) == 3
    assert supervisor.log.count("Traceback") == 1
    assert "ModuleNotFoundError: No module named 'nowhere_to_be_found'" in supervisor.log
    assert 'event="version is loaded" version=1' not in supervisor.log


def test_a_refusal_before_the_first_readiness_ends_it(
    folder: Path, models: Repository, serve: Serve
) -> None:
    models.put("1")
    with ScriptedBroker(folder, welcomes=False) as broker:
        supervisor = serve()
        peer, _ = broker.wait_for(WorkerHello)
        broker.send(peer, Refused(7, "unknown stage"))
        assert supervisor.wait(broker) == 2
        assert "the broker refuses this worker: unknown stage" in supervisor.log


# ------------------------------------------------------------------ what is on disk


def test_an_empty_repository_is_waited_for_and_a_copy_until_it_is_whole(
    broker: ScriptedBroker, models: Repository, serve: Serve
) -> None:
    supervisor = serve(stage="stocked")
    _, beat = broker.wait_for(SupervisorBeat, lambda beat: bool(beat.reports))
    (report,) = beat.reports
    assert (report.worker, report.health) == (b"", WorkerHealth.GONE)
    assert report.failure == f"{models.root}: it has no complete version yet"
    (models.root / "1").mkdir()
    for end in range(1, 5):  # as `cp` does it, slowly
        (models.root / "1/how").write_text("whole"[:end])
        broker.pump(0.3)
    (models.root / "1/how").write_text("whole")
    (models.root / "v2").mkdir()
    worker, _ = ready(broker, "1")
    assert ask(broker, worker) == ["1", "1", "whole"]
    assert not any(r.failure for r in wait_states(broker, v1=READY).reports)
    assert supervisor.log.count("it has no complete version yet") == 1
    assert supervisor.log.count('name=v2 reason="its name is no number"') == 1


def test_links_as_kubernetes_makes_them(
    broker: ScriptedBroker, models: Repository, serve: Serve
) -> None:
    models.put("1").rename(models.root / "..2024_1")
    (models.root / "..data").symlink_to("..2024_1")
    (models.root / "5").symlink_to("..data")
    serve()
    worker, _ = ready(broker, "5")
    assert ask(broker, worker) == ["5", "..2024_1", "fine"]


def test_a_version_that_is_removed_goes_on_serving(
    broker: ScriptedBroker, models: Repository, serve: Serve
) -> None:
    models.put("1")
    models.put("2")
    supervisor = serve()
    second, said = ready(broker, "2")
    want(broker, said, "2")
    shutil.rmtree(models.root / "2")
    ready(broker, "1")
    wait_states(broker, v1=READY, v2=READY)
    assert ask(broker, second) == ["2", "2", "fine"]
    assert supervisor.log.count('event="its folder is gone" version=2') == 1
    want(broker, said, "1")
    assert dismiss(broker) == second
    wait_states(broker, v1=READY)


def test_a_repository_that_is_gone_for_a_while(
    broker: ScriptedBroker, models: Repository, serve: Serve, folder: Path
) -> None:
    models.put("1")
    supervisor = serve()
    worker, _ = ready(broker, "1")
    models.root.rename(folder / "elsewhere")
    supervisor.wait_log(broker, "it cannot be read: No such file or directory")
    assert ask(broker, worker) == ["1", "1", "fine"]
    (folder / "elsewhere").rename(models.root)
    models.put("2")
    ready(broker, "2")
    wait_states(broker, v1=READY, v2=READY)


# ------------------------------------------------------------------ as without versions


def test_a_worker_that_dies_or_is_to_be_killed_is_replaced_by_one_of_its_version(
    broker: ScriptedBroker, models: Repository, serve: Serve
) -> None:
    models.put("1")
    models.put("2")
    serve(versions="all")
    second, said = ready(broker, "2")
    first, other = ready(broker, "1")
    os.kill(said.pid, signal.SIGKILL)
    assert broker.wait_report(second, WorkerHealth.GONE) == "signal 9 (SIGKILL)"
    again, _ = ready(broker, "2")
    broker.send(other.supervisor, Kill(broker.epoch, first, "it hangs"))
    last, _ = ready(broker, "1")
    assert ask(broker, again)[:1] + ask(broker, last)[:1] == ["2", "1"]


def test_recycling_goes_on_in_each_version(
    broker: ScriptedBroker, models: Repository, serve: Serve
) -> None:
    models.put("1")
    models.put("2")
    serve(versions="all", max_batches=1)
    second, _ = ready(broker, "2")
    first, _ = ready(broker, "1")
    for worker, version in ((second, "2"), (first, "1")):
        ask(broker, worker)
        successor, _ = ready(broker, version)
        assert dismiss(broker) == worker
        assert ask(broker, successor)[0] == version


@pytest.mark.parametrize("loads", [False, True])
def test_a_drain_ends_the_workers_of_all_versions(
    broker: ScriptedBroker, models: Repository, serve: Serve, folder: Path, *, loads: bool
) -> None:
    models.put("1")
    models.put("2")
    supervisor = serve(versions="all", processes=2)
    workers = {ready(broker, version)[0] for version in ("2", "2", "1", "1")}
    if loads:
        (folder / "shut-3").touch()
        models.put("3")
        broker.wait_for(WorkerHello, lambda hello: hello.version == "3")
    supervisor.signal(signal.SIGTERM)
    dismiss_all(broker, workers)
    assert supervisor.wait(broker) == 0
    supervisor.wait_orphans_gone()


def test_a_second_signal_ends_it_at_once_while_a_version_retires(
    broker: ScriptedBroker, models: Repository, serve: Serve
) -> None:
    models.put("1")
    supervisor = serve()
    _, said = ready(broker, "1")
    models.put("2")
    ready(broker, "2")
    want(broker, said, "2")
    broker.wait_for(WorkerDraining)
    broker.send(said.supervisor, Beat(broker.epoch))
    supervisor.signal(signal.SIGTERM)
    broker.wait_for(SupervisorBeat, lambda beat: beat.draining)
    supervisor.signal(signal.SIGTERM)
    assert supervisor.wait(broker) == 128 + signal.SIGTERM
    supervisor.wait_orphans_gone()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"models": "/nonexistent"}, "/nonexistent: there is no such folder"),
        ({"version": "3"}, "a model repository names the versions and their folders itself"),
        ({"versions": "newest"}, "must be latest:N, all, or specific"),
    ],
)
def test_options_that_cannot_be(
    models: Repository, serve: Serve, options: dict[str, object], said: str
) -> None:
    supervisor = serve(**options)
    assert supervisor.wait() == 2
    (line,) = supervisor.log.splitlines()
    assert said in line
