"""Workers come and go under load, and no client notices."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.system.client import HttpAnswer
from tests.system.deployment import Deployment, wait_until
from tests.system.load import FULL, Load, Request

pytestmark = pytest.mark.system

SLOW = Path(__file__).parent / "plugins" / "slow.py"
PATH = "/pipelines/slow"


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    """One worker and one gateway, which every test leaves as it found them."""
    with Deployment(pipelines='[pipelines.slow]\nchain = ["slow"]\n') as mill:
        mill.broker()
        mill.worker(SLOW)
        mill.gateway()
        mill.wait_ready()
        yield mill


def numbered(number: int) -> Request:
    """A request that is answered with its own number."""

    def is_right(answer: HttpAnswer) -> bool:
        return bool(answer.json() == number)

    return Request(str(number).encode(), {}, is_right)


def items(mill: Deployment) -> dict[int, int]:
    """How many items each ready worker has done, by its pid."""
    return {worker["pid"]: worker["items"] for worker in mill.workers()}


def test_one_more_worker_takes_its_share_and_leaves_again(mill: Deployment) -> None:
    with Load(mill.port, PATH, clients=8, make=numbered, rate=FULL) as load:
        wait_until(lambda: load.answered > 100, 30, "100 answers")
        (old,) = items(mill)

        second = mill.worker(SLOW)
        mill.wait_workers(2)
        before = items(mill)
        (new,) = before.keys() - {old}
        wait_until(lambda: sum(items(mill).values()) > sum(before.values()) + 400, 30, "400 more")
        after = items(mill)
        done = {pid: after[pid] - before[pid] for pid in (old, new)}
        assert done[new] > 0.15 * sum(done.values()), done

        second.stop()
        mill.wait_workers(1)
        answered = load.answered
        wait_until(lambda: load.answered > answered + 100, 30, "100 answers of one worker")
        assert list(items(mill)) == [old]
    assert set(load.answers) == {"200"}, load.answers
    assert load.cut == []
    assert load.wrong == []
    assert load.refused == 0


def test_a_command_with_several_processes_is_one_to_stop(mill: Deployment) -> None:
    with Load(mill.port, PATH, clients=4, make=numbered) as load:
        more = mill.worker(SLOW, "--processes", "2")
        mill.wait_workers(3)
        assert len(more.children()) == 2
        more.stop()
        mill.wait_workers(1)
    assert set(load.answers) == {"200"}, load.answers
    assert load.cut == []
    assert load.wrong == []


def test_a_second_gateway_serves_the_same_pipelines(mill: Deployment) -> None:
    port = free_port()
    other = mill.gateway(port=port)
    mill.wait_ready(port=port)
    with Load(port, PATH, clients=4, make=numbered) as load:
        wait_until(lambda: load.answered > 50, 30, "50 answers")
        assert len(mill.status()["gateways"]) == 2
        other.stop()
    assert set(load.answers) <= {"200", "503 draining"}, load.answers
    assert load.cut == []
    wait_until(lambda: len(mill.status()["gateways"]) == 1, 15, "one gateway")
    with mill.client() as client:
        assert client.post(PATH, b"1").json() == 1
