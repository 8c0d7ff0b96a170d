"""The gateway and its broker: loss, restarts, silence, late answers, hang-ups, bounds."""

import threading

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    Answer,
    Answers,
    Failure,
    GatewayHello,
    Refused,
    Unknown,
    Welcome,
    Who,
)
from gateway import pending
from tests.integration.gateway.conftest import StartGateway
from tests.integration.gateway.fake_broker import FakeBroker, digits
from tests.integration.gateway.harness import RawClient, RunningGateway


def ask(gateway: RunningGateway, body: bytes = b"1", **headers: str) -> RawClient:
    """A request that is under way, on a connection of its own."""
    client = gateway.connect()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    client.send_request("POST", "/pipelines/digits", body, names)
    return client


# ------------------------------------------------------------------ hang-ups


@pytest.mark.parametrize("rudely", [False, True])
def test_a_hang_up_cancels(broker: FakeBroker, gateway: RunningGateway, rudely: bool) -> None:
    broker.respond = lambda _: None
    client = ask(gateway)
    (item,) = broker.wait_for_items(1)
    if rudely:  # a reset instead of an orderly end
        client.socket.setsockopt(1, 13, b"\x01\0\0\0\0\0\0\0")  # SO_LINGER, 0 s
    client.socket.close()
    broker.wait_for(lambda: item.seq in broker.cancelled(), "no Cancel")
    assert gateway.counted(499) == 1
    broker.answer(item, b"too late")
    broker.respond = lambda _: b"fine"
    assert gateway.post().body == b"fine"
    late = 'millstream_gateway_dropped_messages_total{reason="late"}'
    gateway.wait_for(lambda: gateway.metrics()[late] == 1, "the late answer is not counted")
    samples = gateway.metrics()
    assert samples['millstream_gateway_waiting_items{pipeline="digits"}'] == 0


def test_twenty_hang_ups_leave_nothing(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda _: None
    clients = [ask(gateway, b"x" * 10_000) for _ in range(20)]
    items = broker.wait_for_items(20)
    for client in clients:
        client.socket.close()
    broker.wait_for(lambda: broker.cancelled() == {item.seq for item in items})
    samples = gateway.metrics()
    assert samples['millstream_gateway_held_bytes{pipeline="digits"}'] == 0


# ------------------------------------------------------------------ deadlines


def test_the_gateways_own_timer_answers(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda _: None
    response = gateway.post(headers={"X-Timeout-Ms": "300"})
    assert (response.status, response.code) == (504, "deadline_exceeded")
    (item,) = broker.wait_for_items(1)
    broker.wait_for(lambda: item.seq in broker.cancelled(), "no Cancel")


def test_a_request_that_no_broker_ever_took(start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    response = gateway.post(headers={"X-Timeout-Ms": "50"})
    assert (response.status, response.code) == (503, "not_ready")
    assert response.headers["retry-after"] == "1"
    assert gateway.counted(503, "unknown") == 1


# ------------------------------------------------------------------ odd messages


def test_odd_answers_do_not_disturb_the_others(broker: FakeBroker, gateway: RunningGateway) -> None:
    def oddly(item: object) -> None:
        seq = item.seq  # type: ignore[attr-defined]
        broker.send(Answers(broker.epoch, [Answer(seq, b"first"), Answer(seq, b"second")]))
        broker.send(Answers(broker.epoch, [Answer(seq + 10_000, b"never asked")]))
        broker.send(Unknown(broker.epoch, [seq, seq + 10_000]))

    broker.respond = oddly
    for _ in range(100):
        assert gateway.post().body == b"first"
    late = 'millstream_gateway_dropped_messages_total{reason="late"}'
    gateway.wait_for(lambda: gateway.metrics()[late] == 200, "not all are counted")


def test_what_the_broker_lost_is_submitted_again(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    broker.respond = lambda item: b"found" if item.again else None
    client = ask(gateway)
    (item,) = broker.wait_for_items(1)
    broker.send(Unknown(broker.epoch, [item.seq]))
    assert client.read_response().body == b"found"
    first, second = broker.wait_for_items(2)
    assert first.seq == second.seq
    client.socket.close()


def test_bytes_that_are_no_message_are_counted(broker: FakeBroker, gateway: RunningGateway) -> None:
    for parts in ([b"garbage"], [b""], [b"\x92\x24\x07", b"extra"], [b"x"] * 50):
        broker.send_raw(parts)
    garbage = 'millstream_gateway_dropped_messages_total{reason="garbage"}'
    gateway.wait_for(lambda: gateway.metrics()[garbage] == 4, "not counted")
    assert gateway.post().status == 200


def test_a_refusal_is_shown(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.send(Refused(broker.epoch, "too old a protocol"))
    broker.send(Who(broker.epoch))
    gateway.wait_for(lambda: gateway.request("GET", "/readyz").status == 200, "never again ready")


# ------------------------------------------------------------------ restarts


def test_what_the_socket_does_not_take_is_kept(address: str, start_gateway: StartGateway) -> None:
    with FakeBroker(address, epoch=1):
        gateway = start_gateway().wait_until_ready()
    clients = []
    for number in range(8):  # each in a turn, and so in a message, of its own
        clients.append(ask(gateway, b"%d" % number))
        gateway.request("GET", "/livez")
    with FakeBroker(address, epoch=2):
        for number, client in enumerate(clients):
            assert client.read_response().body == b"%d" % number
            client.socket.close()


def test_a_new_broker_gets_what_the_old_one_had(address: str, start_gateway: StartGateway) -> None:
    with FakeBroker(address, epoch=1, respond=lambda _: None) as old:
        gateway = start_gateway().wait_until_ready()
        clients = [ask(gateway, b"x" * size) for size in (1, 10_000)]
        before = {item.seq for item in old.wait_for_items(2)}
        old.stop()
    with FakeBroker(address, epoch=2, respond=lambda _: None) as new:
        items = new.wait_for_items(2)
        assert {item.seq for item in items} == before
        assert all(item.again and 0.0 < item.left_s < 10.0 for item in items)
        # An answer of the old life is dropped, one of the new life is given, once.
        new.send(Answers(1, [Answer(item.seq, b"old") for item in items]))
        new.send(Answers(2, [Answer(item.seq, b"new") for item in items]))
        new.send(Answers(2, [Answer(item.seq, b"twice") for item in items]))
        for client in clients:
            assert client.read_response().body == b"new"
            client.socket.close()
        new.respond = lambda _: b"afterwards"
        assert gateway.post().body == b"afterwards"
        assert gateway.counted(200, version="v1") + gateway.counted(200) == 3


def test_requests_wait_for_a_broker_that_starts_later(
    address: str, start_gateway: StartGateway
) -> None:
    gateway = start_gateway()
    known = ask(gateway, b"known")
    single = gateway.connect()
    single.send_request("POST", "/inference", b"y" * 10_000)
    unknown = gateway.connect()
    unknown.send_request("POST", "/pipelines/nope", b"1")
    with FakeBroker(address, pipelines=[digits(timeout_s=100.0)]) as broker:
        assert known.read_response().body == b"known"
        assert single.read_response().body == b"y" * 10_000
        assert unknown.read_response().code == "unknown_pipeline"
        items = broker.wait_for_items(2)
        assert all(90.0 < item.left_s < 100.0 and not item.again for item in items)
    for client in (known, single, unknown):
        client.socket.close()


def test_a_draining_broker_is_waited_out(address: str, start_gateway: StartGateway) -> None:
    with FakeBroker(address, epoch=1, respond=lambda _: None) as old:
        gateway = start_gateway().wait_until_ready()
        taken = ask(gateway, b"taken")
        (item,) = old.wait_for_items(1)
        old.announce(draining=True)
        gateway.wait_for(lambda: gateway.request("GET", "/readyz").status == 503, "never down")
        held = ask(gateway, b"held")
        old.answer(item, b"still answered")
        assert taken.read_response().body == b"still answered"
        assert len(old.items) == 1
    with FakeBroker(address, epoch=2) as new:
        assert held.read_response().body == b"held"
        assert not new.items[0].again
    for client in (taken, held):
        client.socket.close()


def test_an_answer_that_says_draining_is_none(address: str, start_gateway: StartGateway) -> None:
    with FakeBroker(
        address, epoch=1, respond=lambda _: Failure(ErrorCode.DRAINING, "going")
    ) as old:
        gateway = start_gateway().wait_until_ready()
        client = ask(gateway, b"patient")
        old.wait_for_items(1)
    with FakeBroker(address, epoch=2):
        assert client.read_response().body == b"patient"
        client.socket.close()


def test_silence_is_noticed(
    broker: FakeBroker, start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "SILENCE_S", 1.5)  # three beats
    gateway = start_gateway().wait_until_ready()
    hellos = [message for message in broker.seen if isinstance(message, GatewayHello)]
    broker.silent = True
    gateway.wait_for(lambda: gateway.request("GET", "/readyz").status == 503, "never noticed")
    client = ask(gateway, b"held")
    broker.wait_for(
        lambda: sum(isinstance(m, GatewayHello) for m in broker.seen) > len(hellos), "no hello"
    )
    assert not broker.items
    broker.silent = False
    assert client.read_response().body == b"held"
    assert gateway.request("GET", "/readyz").status == 200
    client.socket.close()


def test_a_broker_that_forgot_us_is_told_everything(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    broker.respond = lambda item: b"again" if item.again else None
    client = ask(gateway)
    broker.wait_for_items(1)
    broker.gateways.clear()  # its next beat is answered Who
    assert client.read_response().body == b"again"
    client.socket.close()


# ------------------------------------------------------------------ bounds


def test_how_many_there_may_be_is_the_brokers_decision(
    address: str, start_gateway: StartGateway
) -> None:
    """A flood fills the pipeline; the broker turns one of it away for a client that has none."""
    with FakeBroker(address, pipelines=[digits(max_items=3)], respond=lambda _: None) as broker:
        gateway = start_gateway().wait_until_ready()
        flood = [ask(gateway, X_Api_Key="greedy") for _ in range(3)]
        items = broker.wait_for_items(3)
        quiet = ask(gateway, b"x" * 10_000, X_Api_Key="quiet")
        *_, last = broker.wait_for_items(4)
        broker.answer(items[2], Failure(ErrorCode.QUEUE_FULL, "there is one that has none"))
        broker.answer(last, b"done")
        assert quiet.read_response().body == b"done"
        gateway.wait_for(lambda: gateway.counted(429, version="v1") == 1, "nobody made room")
        for client in [*flood, quiet]:
            client.socket.close()


def test_without_a_broker_it_holds_what_it_may_and_no_more(
    address: str, start_gateway: StartGateway
) -> None:
    with FakeBroker(address, pipelines=[digits(max_items=3)]) as broker:
        gateway = start_gateway().wait_until_ready()
        broker.announce(draining=True)
        gateway.wait_for(lambda: gateway.request("GET", "/readyz").status == 503, "never down")
        held = [ask(gateway, b"x" * size) for size in (1, 10_000, 1)]
        waiting = 'millstream_gateway_waiting_items{pipeline="digits"}'
        gateway.wait_for(lambda: gateway.metrics()[waiting] == 3, "not held")
        for body in (b"1", b"x" * 10_000):
            response = gateway.post(body)
            assert (response.status, response.code) == (429, "queue_full")
        for client in held:
            client.socket.close()


def test_bytes_beyond_the_bound_are_refused_at_once(
    address: str, start_gateway: StartGateway
) -> None:
    small = digits(max_bytes=100_000)
    with FakeBroker(address, pipelines=[small], respond=lambda _: None) as broker:
        gateway = start_gateway().wait_until_ready()
        client = ask(gateway)
        broker.wait_for_items(1)
        large = gateway.post(b"x" * 100_000)
        assert (large.status, large.code) == (429, "queue_full")
        assert large.headers["retry-after"]
        uploading = gateway.connect()  # what is still on its way counts as well
        uploading.send(b"POST /pipelines/digits HTTP/1.1\r\nHost: t\r\n")
        uploading.send(b"Transfer-Encoding: chunked\r\n\r\n1ffff\r\n" + b"x" * 0x1FFFF + b"\r\n")
        assert uploading.read_response().code == "queue_full"
        for each in (client, uploading):
            each.socket.close()
        gateway.wait_for(
            lambda: gateway.metrics()['millstream_gateway_held_bytes{pipeline="digits"}'] == 0,
            "something is held for nobody",
        )


def test_many_clients_at_once(gateway: RunningGateway) -> None:
    failures: list[object] = []

    def client(number: int) -> None:
        with gateway.connect() as connection:
            for turn in range(50):
                body = b"%d-%d" % (number, turn)
                connection.send_request("POST", "/pipelines/digits", body)
                if (response := connection.read_response()).body != body:
                    failures.append(response)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not failures
    assert gateway.counted(200, version="v1") == 400


def test_a_welcome_of_nobody_changes_nothing(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.send(Welcome(broker.epoch, 1))
    assert gateway.post().status == 200
