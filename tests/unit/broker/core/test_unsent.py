"""Batches that never left the broker: whoever they were for cannot have died of them."""

from collections.abc import Callable

from broker.core.events import PeerLost
from tests.unit.broker.core.driver import Driver, pipeline

Make = Callable[..., Driver]


def test_a_request_for_workers_that_are_gone_has_used_no_attempt(broker: Make) -> None:
    driver = broker(p=pipeline("a", attempts=3))
    driver.gateway()
    for n in range(4):  # a host that vanished, which nobody has noticed yet
        driver.worker(b"w%d" % n, repeatable=False)
    (seq,) = driver.submit()
    for _ in range(4):
        ((worker, (batch,)),) = [each for each in driver.batches.items() if each[1]]
        driver.forget(worker)
        driver.event(PeerLost(worker, "no connection", (batch.lease,)))
        driver.tick()
    item = driver.items()[seq]
    assert (item.attempts, item.suspect) == (0, False)
    driver.worker(b"alive")
    driver.tick()
    driver.finish(b"alive")
    assert driver.result(seq) == b"1"
    driver.settle()


def test_what_left_before_was_running(broker: Make) -> None:
    driver = broker(p=pipeline("a"))
    driver.gateway()
    driver.worker(max_batch_size=2)
    driver.submit(4)
    _, unsent = driver.batches[b"w1"]
    driver.forget(b"w1")
    driver.event(PeerLost(b"w1", "no connection", (unsent.lease,)))
    held = driver.items()
    assert [held[n].suspect for n in (1, 2, 3, 4)] == [True, True, False, False]
    driver.settle()


def test_what_is_unsent_may_be_unknown(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.event(PeerLost(b"w1", "no connection", (0, 77)))
    driver.event(PeerLost(b"g1", "no connection", (77,)))
    driver.event(PeerLost(b"nobody", "no connection", (77,)))
    driver.settle()
