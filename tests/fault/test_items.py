"""Items that kill or hang workers, or that nobody waits for: all others are answered."""

import os
import signal

import pytest

from tests.fault.rig import LONG_S, WAIT_S, Rig
from tests.system.deployment import wait_until

pytestmark = pytest.mark.fault


@pytest.mark.parametrize("how", ["die", "segfault"])
def test_one_of_a_hundred_kills_its_worker(rig: Rig, how: str) -> None:
    def body(number: int) -> bytes:
        deed = b',"at":"second","do":"%b"' % how.encode() if number == 50 else b""
        return b'{"n":%d%b}' % (number, deed)

    with rig.load(clients=100, requests=100, body=body) as load:
        report = load.join()
    report.check(allowed=["500 worker_crashed"])
    assert report.count() == {"200": 99, "500 worker_crashed": 1}
    assert [answer.number for answer in report.answers if answer.code] == [50]


def test_a_call_of_forward_that_hangs(rig: Rig) -> None:
    before = rig.counter("workers_hung")

    def body(number: int) -> bytes:
        return (b'{"n":%d,"at":"third","do":"hang"}' if number == 50 else b'{"n":%d}') % number

    with rig.load(clients=32, requests=1000, body=body) as load:
        report = load.join()
    bad = [answer for answer in report.answers if answer.status != 200]
    assert [answer.number for answer in bad] == [50]
    assert bad[0].code in {"worker_crashed", "deadline_exceeded"}
    report.check(allowed=[f"{bad[0].status} {bad[0].code}"])
    rig.wait_whole()
    assert rig.counter("workers_hung") >= before + 2, "they have been killed, and replaced"


def test_a_call_of_forward_that_hangs_while_the_broker_is_replaced(rig: Rig) -> None:
    def running() -> list[int]:
        workers = rig.status()["workers"]
        return [each["pid"] for each in workers if each["running"] and each["stage"] == "third"]

    body = b'{"n":0,"at":"third","do":"hang"}'
    with rig.load(clients=1, requests=1, body=lambda _: body, timeout_ms=2000) as load:
        (hanging,) = wait_until(running, WAIT_S, "it hangs")
        rig.broker.kill()
        rig.start_broker()
        load.join()
    wait_until(lambda: hanging not in rig.workers("third"), WAIT_S, "it is replaced")


def test_a_backlog_of_dead_clients(rig: Rig) -> None:
    (worker,) = rig.workers("solo")
    with rig.solo(clients=1, requests=200) as load:
        load.join().check()  # the broker knows how quick it is
    os.kill(worker, signal.SIGSTOP)
    try:
        with rig.solo(clients=200, requests=200, timeout_ms=100) as load:
            report = load.join()
    finally:
        os.kill(worker, signal.SIGCONT)
    assert report.count() == {"504 deadline_exceeded": 200}
    assert report.slowest_s() < LONG_S
    rig.check_empty()
    rig.wait_whole()
    with rig.solo(clients=8, requests=200) as load:
        load.join().check()
