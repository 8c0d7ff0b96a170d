"""Gateways that are killed or drained, and clients that hang up: nobody else notices."""

import socket
import time

import pytest

from tests.fault.rig import LONG_S, WAIT_S, Rig, under_load
from tests.system.deployment import wait_until

pytestmark = pytest.mark.fault


def test_a_gateway_killed(rig: Rig) -> None:
    dead, living = rig.ports
    load = rig.load()
    under_load(rig, load, rig.gateways[0].kill)
    load.report.check(lost_at=[dead])
    assert load.report.lost, "its clients have seen their connections end"
    assert {answer.port for answer in load.report.answers[-100:]} == {living}


def test_the_items_of_a_killed_gateway_are_cancelled(rig: Rig) -> None:
    with rig.solo(clients=100, body=napping) as load:
        wait_until(lambda: rig.status()["pipelines"]["solo"]["items"] > 90, WAIT_S, "they are held")
        before = rig.counter("cancelled")
        rig.gateways[0].kill()
        rig.check_empty()
        assert rig.counter("cancelled") - before > 50, "most of them are not run"
    assert len(load.report.lost) >= 100


def test_a_gateway_drained(rig: Rig) -> None:
    leaving, staying = rig.ports
    signalled: list[float] = []

    def fault() -> None:
        signalled.append(time.monotonic())
        rig.gateways[0].stop()

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check(allowed=["503 draining"])
    refused = [answer for answer in load.report.answers if answer.code]
    assert all(answer.port == leaving and answer.sent_s > signalled[0] for answer in refused)
    assert {answer.port for answer in load.report.answers[-100:]} == {staying}


def test_clients_that_hang_up_while_they_wait(rig: Rig) -> None:
    body = napping(0)
    head = b"POST /pipelines/solo HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % len(body)
    before = rig.counter("cancelled")
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", rig.ports[0])) as client:
            client.sendall(head + body)
    wait_until(lambda: rig.counter("cancelled") - before > 180, WAIT_S, "nearly all are cancelled")
    rig.check_empty()
    with rig.solo(clients=1, requests=1) as load:
        report = load.join()
    report.check()
    assert report.slowest_s() < LONG_S, "to run them all would take six seconds"


def napping(number: int) -> bytes:
    """A request that keeps its worker for a moment."""
    return b'{"n":%d,"nap_s":0.03}' % number
