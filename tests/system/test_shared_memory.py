"""Large arrays between real processes: right answers whatever dies, and nothing left in the end."""

import fcntl
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.payload.folder import folder_name
from tests.fault.load import Load
from tests.ports import free_port
from tests.system.deployment import Deployment, Role, wait_until
from tests.system.load import Load as LoadOfOnes
from tests.system.load import Request

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

PLUGIN = Path(__file__).parent / "plugins" / "arrays.py"
STAGES = ("make", "double", "count")
PIPELINES = f"[pipelines.arrays]\nchain = {list(STAGES)}\n"
PATH = "/pipelines/arrays"
UPLOAD_BYTES = 200_000
SWOLLEN_BYTES = 200_000
"""What `Swell` answers with, and some."""
TIDY_S = 20.0
"""For the broker to see that an owner is dead, and that nobody needs its arena."""


class Mill:
    """A deployment of three stages and one or two gateways, and its folder of arenas."""

    def __init__(self, root: Path, *, gateways: int = 1, env: dict[str, str] | None = None) -> None:
        env = {"MILLSTREAM_SHM": str(root), **(env or {})}
        deployment = Deployment(pipelines=PIPELINES, env=env)
        self.deployment = deployment.__enter__()
        self.folder = root / folder_name(deployment.address)
        self.ports = [deployment.port, *(free_port() for _ in range(1, gateways))]
        self.roles: dict[str, Role] = {}

    def start(self, name: str, *options: str, env: dict[str, str] | None = None) -> None:
        """A broker, a gateway ("gateway" or "other gateway"), or the workers of a stage."""
        if name == "broker":
            self.roles[name] = self.deployment.broker()
        elif name.endswith("gateway"):
            port = self.ports[name.startswith("other")]
            self.roles[name] = self.deployment.gateway(*options, port=port)
        else:
            script = f"{PLUGIN}:{name.capitalize()}"
            self.roles[name] = self.deployment.worker(script, *options, env=env)

    def start_all(self) -> None:
        """Everything that is not there, until it is ready."""
        gateways = ("gateway", "other gateway")[: len(self.ports)]
        for name in ("broker", *gateways, *STAGES):
            if name not in self.roles or not self.roles[name].is_running:
                self.start(name)
        self.wait_ready()

    def leave(self, *, first: str) -> None:
        """One leaves on its own, then all the others together. Nothing must be left of it."""
        self.roles[first].stop()
        self.close()

    def close(self) -> None:
        """Stop all that still runs. AssertionError where anything is left in shared memory."""
        if self.deployment not in Deployment.open:
            return
        Deployment.open.remove(self.deployment)
        self.deployment.close()
        left = list(self.folder.iterdir()) if self.folder.exists() else []
        assert not self.folder.exists(), f"left in shared memory: {left}"

    def wait_ready(self) -> None:
        """Until every gateway says so."""
        for port in self.ports:
            self.deployment.wait_ready(port=port)

    def arenas(self) -> list[Path]:
        """The files that there are."""
        return sorted(self.folder.glob("*.arena"))

    def used_bytes(self) -> list[int]:
        """Memory taken by each of them, the largest first."""
        return sorted((path.stat().st_blocks * 512 for path in self.arenas()), reverse=True)

    def load(self, *, clients: int = 12, requests: int | None = None) -> Load:
        return Load(self.ports, PATH, clients=clients, requests=requests)

    def held_slots(self) -> int:
        """Payloads in shared memory that somebody holds, as the broker counts them."""
        return sum(arena["slots"] for arena in self.deployment.status()["arenas"])

    def payloads_lost(self) -> int:
        """How often a worker could not read what it was sent."""
        lost: int = self.deployment.status()["counters"].get("payloads_lost", 0)
        return lost

    def upload(self) -> None:
        """One upload that is large enough for the gateway's own arena."""
        body = b"x" * UPLOAD_BYTES
        with self.deployment.client() as client:
            answer = client.post(PATH, body, {"Content-Type": "application/octet-stream"})
        assert answer.status == 200, answer
        assert answer.json() == {"n": UPLOAD_BYTES, "stages": 3}


@pytest.fixture(scope="module")
def shm() -> Path:
    """Where the host keeps shared memory."""
    return Path("/dev/shm")


@pytest.fixture
def make() -> Iterator[Callable[..., Mill]]:
    """Deployments of a test's own, that leave nothing in shared memory."""
    mills: list[Mill] = []

    def make(root: Path, **env: str) -> Mill:
        mills.append(Mill(root, env=env))
        return mills[-1]

    yield make
    for mill in mills:
        mill.close()


@pytest.fixture(scope="module")
def standing(shm: Path) -> Iterator[Mill]:
    """One deployment for most tests, since they mend what they have broken; they ask for `mill`."""
    mill = Mill(shm, gateways=2)
    yield mill
    mill.close()


@pytest.fixture
def mill(standing: Mill) -> Mill:
    """The deployment, whole."""
    standing.start_all()
    return standing


# ------------------------------------------------------------------ in order


def test_arrays_travel_in_shared_memory(mill: Mill) -> None:
    lost = mill.payloads_lost()
    with mill.load(requests=300) as load:
        report = load.join()
    report.check()
    assert len(report.answers) == 300
    assert [used for used in mill.used_bytes() if used >= 600_000][1:], "two stages have sent some"
    assert mill.folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in mill.arenas())
    mill.upload()
    assert [used for used in mill.used_bytes() if used >= UPLOAD_BYTES][2:], "and the gateway"
    wait_until(lambda: mill.held_slots() <= 1, 15.0, "all is free but what a plug-in keeps")
    assert mill.payloads_lost() == lost


def test_pieces_of_uploads_use_the_same_memory_again(mill: Mill) -> None:
    gateway = mill.roles["gateway"].pid
    with mill.deployment.client(port=mill.ports[0]) as client:

        def upload(times: int) -> int:
            """The pages that the system had to give the gateway for it."""
            before = page_faults(gateway)
            for _ in range(times):
                answer = client.post(PATH, bytes(4_000_000), {"Content-Type": "image/png"})
                assert answer.status == 200
            return page_faults(gateway) - before

        upload(10)
        assert upload(10) < 10 * 200, "an eighth of them is collected, 122 pages"


def page_faults(pid: int) -> int:
    """Minor ones of a process: pages that were given to it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[7])


def test_large_answers(make: Callable[..., Mill], shm: Path) -> None:
    mill = make(shm)
    mill.deployment.write("pipelines.toml", '[pipelines.big]\nchain = ["swell"]\n')
    for name in ("broker", "gateway", "swell"):
        mill.start(name)
    mill.deployment.wait_ready()

    def numbered(number: int) -> Request:
        expected = bytes([number % 251]) * (SWOLLEN_BYTES + number % 7)
        return Request(b'{"n":%d}' % number, {}, lambda answer: answer.body == expected)

    load = LoadOfOnes(mill.ports[0], "/pipelines/big", clients=6, make=numbered)
    with load:
        wait_until(lambda: load.answered > 100, 30, "100 answers")
        leaving = mill.roles["swell"]
        mill.start("swell")
        mill.deployment.wait_workers(2)
        leaving.stop()
        answered = load.answered
        wait_until(lambda: load.answered > answered + 100, 30, "100 more of the other")
    assert set(load.answers) == {"200"}, load.answers
    assert load.wrong == []
    wait_until(lambda: mill.held_slots() == 0, 15.0, "all is free")
    assert mill.used_bytes()[0] < 50 * SWOLLEN_BYTES, "memory is used again"


def test_workers_leave_under_load(mill: Mill) -> None:
    lost = mill.payloads_lost()
    with mill.load() as load:
        for stage in STAGES:
            load.flow(20)
            leaving = mill.roles[stage]
            mill.start(stage)
            mill.deployment.wait_workers(len(STAGES) + 1)
            leaving.stop()
            load.flow(20)
    load.report.check()
    assert mill.payloads_lost() == lost
    wait_until(lambda: len(mill.arenas()) <= len(STAGES) + 2, TIDY_S, "arenas of the living alone")


# ------------------------------------------------------------------ faults


@pytest.mark.parametrize("name", [*STAGES, "broker", "other gateway"])
def test_whoever_is_killed(mill: Mill, name: str) -> None:
    with mill.load() as load:
        load.flow(30)
        role = mill.roles[name]
        if name in STAGES:
            (worker,) = role.children()
            worker.kill()  # its supervisor starts another
        else:
            role.kill()
            mill.start(name)
        load.flow(30)
    load.report.check(lost_at=mill.ports[1:] if name == "other gateway" else ())
    mill.wait_ready()
    mill.upload()
    wait_until(lambda: len(mill.arenas()) <= len(STAGES) + 2, TIDY_S, "arenas of the living alone")


def test_a_supervisor_is_killed_with_its_workers(mill: Mill) -> None:
    with mill.load() as load:
        load.flow(30)
        mill.roles["double"].kill()
        mill.start("double")
        load.flow(30)
    load.report.check()


def test_a_worker_that_is_stopped_finds_what_it_was_looking_at(mill: Mill) -> None:
    with mill.load() as load:
        load.flow(30)
        stopped = mill.roles["double"]
        (worker,) = stopped.children()
        ready = len(mill.deployment.workers())
        mill.start("double")
        mill.deployment.wait_workers(ready + 1)
        worker.send_signal(signal.SIGSTOP)
        load.flow(30)
        worker.send_signal(signal.SIGCONT)  # before its supervisor kills it, which takes 5 s
        load.flow(60)
    load.report.check()
    stopped.stop()


def test_everything_is_killed(mill: Mill) -> None:
    with mill.load() as load:
        load.flow(30)
        for process in mill.deployment.processes():
            process.kill()
        for role in mill.roles.values():
            role.expected_exit = -signal.SIGKILL
            role.wait()
    left = mill.arenas()
    assert left, "killed owners leave their files"
    mill.start_all()
    assert not set(left) & set(mill.arenas()), "a new broker removes them"
    with mill.load(requests=50) as load:
        report = load.join()
    report.check()


# ------------------------------------------------------------------ others


def test_other_deployments_are_left_alone(make: Callable[..., Mill], tmp_path: Path) -> None:
    other = tmp_path / folder_name("ipc:///somewhere/else")
    other.mkdir(0o700)
    files = [other / "token", other / f"{1:016x}.arena", other / f"{2:016x}.arena"]
    files += [tmp_path / "sem.mine", tmp_path / f"{3:016x}.arena"]
    for path in files:
        path.write_bytes(b"\0" * 100_000)
    mill = make(tmp_path)
    with files[1].open("rb") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        mill.start_all()
        mill.upload()
        mill.roles["broker"].kill()
        mill.start_all()
        mill.upload()
        mill.leave(first="broker")
    assert all(path.stat().st_size == 100_000 for path in files)


def test_a_worker_on_another_host(make: Callable[..., Mill], shm: Path, tmp_path: Path) -> None:
    mill = make(shm)
    mill.start("double", env={"MILLSTREAM_SHM": str(tmp_path)})
    mill.start_all()
    with mill.load(requests=100) as load:
        report = load.join()
    report.check()
    assert list(tmp_path.iterdir()) == [], "it does not share memory with the broker"
    assert mill.used_bytes()[0] >= 600_000, "the stage before it does"
    mill.leave(first="make")


# ------------------------------------------------------------------ little memory


@pytest.fixture
def small_shm() -> Iterator[Path]:
    """Shared memory of 8 MiB, as a small container has it."""
    path = Path(tempfile.mkdtemp(prefix="shm-"))
    options = ["-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(path)]
    done = subprocess.run(["mount", *options], capture_output=True, check=False)
    if done.returncode:
        path.rmdir()
        pytest.skip("may not mount a tmpfs")
    yield path
    subprocess.run(["umount", str(path)], check=True)
    path.rmdir()


@pytest.mark.parametrize("size", ["", "1GiB"])
def test_little_shared_memory(small_shm: Path, make: Callable[..., Mill], size: str) -> None:
    mill = make(small_shm, **({"MILLSTREAM_ARENA": size} if size else {}))
    mill.start_all()
    with mill.load(requests=200, clients=24) as load:
        report = load.join()
    report.check()
    for name, role in mill.roles.items():
        warned = role.output.count("arena_small") + role.output.count("little shared memory")
        assert warned == (not size and name != "broker"), role.name


@pytest.mark.parametrize("size", ["1MiB", "0"])
def test_a_small_arena_or_none(make: Callable[..., Mill], shm: Path, size: str) -> None:
    mill = make(shm, MILLSTREAM_ARENA=size)
    mill.start_all()
    with mill.load(requests=200, clients=24) as load:
        report = load.join()
    report.check()
    assert sum(mill.used_bytes()) <= (5 << 20 if size != "0" else 0)
    assert bool(mill.arenas()) == (size != "0")
    mill.upload()
    mill.leave(first="gateway")


def test_no_shared_memory_at_all(make: Callable[..., Mill], tmp_path: Path) -> None:
    mill = make(tmp_path / "none")
    mill.start_all()
    with mill.load(requests=50) as load:
        report = load.join()
    report.check()
    mill.upload()
    assert os.listdir(tmp_path) == []
