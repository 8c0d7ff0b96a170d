"""Memory that really runs out: under a limit of the process, and under the kernel's hand."""

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages import Dismiss, Failure, Results, WorkerDraining
from tests.integration.workers.conftest import Start
from tests.integration.workers.scripted_broker import ScriptedBroker, value_of


def told(results: Results) -> list[object]:
    """The outcomes, a failure by its code."""
    return [out.code if isinstance(out, Failure) else value_of(out) for out in results.outcomes]


@pytest.mark.parametrize("class_name", ["Hungry", "HungryAsync"])
def test_a_batch_too_large_an_item_too_large_and_a_leak(
    broker: ScriptedBroker, start: Start, class_name: str
) -> None:
    supervisor = start("hungry.py", class_name=class_name)
    ((worker, _),) = broker.wait_ready()

    together = broker.wait_results(broker.send_batch(worker, [{"mib": 160}, {"mib": 160}]))
    assert told(together) == [1, 1]
    assert together.out_of_memory == 2
    assert not together.sample

    too_large = broker.wait_results(broker.send_batch(worker, [{"mib": 1}, {"mib": 300}]))
    assert told(too_large) == [1, ErrorCode.WORKER_ERROR]
    assert too_large.out_of_memory == 1

    assert told(broker.wait_results(broker.send_batch(worker, [{"leak": 180}]))) == [1]
    short = broker.wait_results(broker.send_batch(worker, [{"mib": 100}]))
    assert told(short) == [ErrorCode.OUT_OF_MEMORY]
    broker.wait_for(WorkerDraining)
    broker.send(worker, Dismiss(broker.epoch))
    ((new, _),) = broker.wait_ready()
    again = broker.wait_results(broker.send_batch(new, [{"mib": 100}]))
    assert (told(again), again.out_of_memory) == ([1], 0)
    assert "its memory does not come back" in supervisor.log
    assert 'event="forward ran out of memory" items=2' in supervisor.log
