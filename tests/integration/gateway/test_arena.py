"""Large uploads in shared memory: what is put there, how it is read, and that all comes back."""

import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.payload.folder import ArenaFolder, folder_name
from broker.payload.mapping import Mappings
from broker.wire.errors import ErrorCode
from broker.wire.frames import refs_of
from broker.wire.messages import Answer, Blob, Claims, Failure, Free, Ref, SubmitItem, Unknown
from tests.integration.gateway.conftest import StartGateway
from tests.integration.gateway.fake_broker import FakeBroker, body_of, digits
from tests.integration.gateway.harness import RawClient, RunningGateway

MEGABYTE = bytes(range(256)) * 4096
USED = "millstream_arena_used_bytes"


@pytest.fixture
def folder(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArenaFolder:
    """Shared memory of the test's own."""
    monkeypatch.setenv("MILLSTREAM_SHM", str(tmp_path))
    return ArenaFolder.make(folder_name(address))


@pytest.fixture
def broker(address: str, folder: ArenaFolder) -> Iterator[FakeBroker]:
    """A broker that shares memory, and leaves requests open."""
    with FakeBroker(address, folder=folder, respond=lambda _: None) as broker:
        yield broker


@pytest.fixture
def gateway(broker: FakeBroker, start_gateway: StartGateway) -> RunningGateway:
    """A gateway with an arena."""
    return with_arena(broker, start_gateway(arena_bytes=8 << 20))


def with_arena(broker: FakeBroker, gateway: RunningGateway) -> RunningGateway:
    """The gateway, once the broker knows of its arena."""
    broker.wait_for(lambda: broker.hellos()[-1:] and broker.hellos()[-1].arena, "no arena")
    return gateway.wait_until_ready()


def ask(gateway: RunningGateway, body: bytes, **headers: str) -> RawClient:
    """A request that is under way, on a connection of its own."""
    client = gateway.connect()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    client.send_request("POST", "/pipelines/digits", body, names)
    return client


def begin(gateway: RunningGateway, **headers: str) -> RawClient:
    """A request whose body of a megabyte has come in half."""
    client = gateway.connect()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    names["Content-Length"] = str(len(MEGABYTE))
    client.send_request("POST", "/pipelines/digits", None, names)
    client.send(MEGABYTE[: len(MEGABYTE) // 2])
    gateway.wait_for(lambda: used_bytes(gateway) > len(MEGABYTE), "no slot for it")
    return client


def used_bytes(gateway: RunningGateway) -> float:
    """How much of its arena the gateway says is in use."""
    return gateway.metrics()[USED]


def the_ref(item: SubmitItem) -> Ref:
    """The one reference that a payload is."""
    (ref,) = refs_of(item.payload)
    return ref


def seen_in(folder: ArenaFolder, item: SubmitItem) -> bytes:
    """The body of an item, as a worker reads it."""
    return bytes(Mappings(folder).view(the_ref(item)))


def free(broker: FakeBroker, gateway: RunningGateway, item: SubmitItem) -> None:
    """Nobody holds it any longer: all of the arena is free again."""
    broker.send(Free(broker.epoch, [the_ref(item).generation]))
    gateway.wait_for(lambda: used_bytes(gateway) == 0, "a slot has leaked")


# ------------------------------------------------------------------ what goes there


def test_a_large_upload_is_read_in_place(
    broker: FakeBroker, gateway: RunningGateway, folder: ArenaFolder
) -> None:
    with ask(gateway, MEGABYTE) as client:
        (item,) = broker.wait_for_items(1)
        assert the_ref(item).arena == broker.hellos()[-1].arena
        assert len(item.payload) == len(MEGABYTE)
        assert seen_in(folder, item) == MEGABYTE
        broker.send(Free(broker.epoch, [the_ref(item).generation]))
        broker.answer(item, b"fine")
        assert client.read_response().body == b"fine"
    free(broker, gateway, item)


def test_what_the_broker_still_holds_stays_after_the_answer(
    broker: FakeBroker, gateway: RunningGateway, folder: ArenaFolder
) -> None:
    with ask(gateway, MEGABYTE) as first, ask(gateway, b"x" + MEGABYTE[1:]) as second:
        items = broker.wait_for_items(2)
        for item in items:
            broker.answer(item, b"fine")
        assert first.read_response().status == second.read_response().status == 200
    with ask(gateway, bytes(len(MEGABYTE))):
        broker.wait_for_items(3)
        assert {seen_in(folder, item)[:1] for item in items} == {MEGABYTE[:1], b"x"}


def test_uploads_follow_each_other_on_one_connection(
    broker: FakeBroker, gateway: RunningGateway, folder: ArenaFolder
) -> None:
    bodies = [MEGABYTE, b"1", MEGABYTE[1:], MEGABYTE[:70_000], b"22"]
    with gateway.connect() as client:
        for number, body in enumerate(bodies, 1):
            client.send_request("POST", "/pipelines/digits", body)
            item = broker.wait_for_items(number)[-1]
            assert (seen_in(folder, item) if len(body) > 2 else body_of(item)) == body
            broker.answer(item, b"fine")
            assert client.read_response().body == b"fine"


@pytest.mark.parametrize("size_bytes", [1, 5000, 65535, 65536])
def test_small_bodies_stay_out_of_it(
    broker: FakeBroker, gateway: RunningGateway, size_bytes: int
) -> None:
    with ask(gateway, MEGABYTE[:size_bytes]):
        (item,) = broker.wait_for_items(1)
        assert bool(refs_of(item.payload)) == (size_bytes == 65536)


def test_a_chunked_upload_is_put_there_at_its_end(
    broker: FakeBroker, gateway: RunningGateway, folder: ArenaFolder
) -> None:
    chunked = b"%x\r\n%b\r\n" % (len(MEGABYTE), MEGABYTE) + b"0\r\n\r\n"
    with ask(gateway, chunked, Transfer_Encoding="chunked"):
        (item,) = broker.wait_for_items(1)
        assert seen_in(folder, item) == MEGABYTE


@pytest.mark.parametrize("plain", [MEGABYTE, bytes(100_000), b"1"])
def test_a_compressed_upload_is_put_there_inflated(
    broker: FakeBroker, gateway: RunningGateway, folder: ArenaFolder, plain: bytes
) -> None:
    with ask(gateway, gzip.compress(plain), Content_Encoding="gzip"):
        (item,) = broker.wait_for_items(1)
        if len(plain) > 1:
            assert seen_in(folder, item) == plain
        else:
            assert body_of(item) == plain


def test_what_does_not_fit_goes_through_the_socket(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    large = MEGABYTE * 7
    with ask(gateway, large) as first:
        (stored,) = broker.wait_for_items(1)
        with ask(gateway, MEGABYTE) as second:
            _, sent = broker.wait_for_items(2)
            assert body_of(sent) == MEGABYTE
            assert gateway.metrics()["millstream_arena_overflows_total"] == 1
            for item in (stored, sent):
                broker.answer(item, b"fine")
            assert first.read_response().status == second.read_response().status == 200
    # It asks what is held, and the answer frees what a lost message would have left.
    said = len(broker.hellos())
    with ask(gateway, MEGABYTE):
        broker.wait_for(lambda: len(broker.hellos()) > said, "it does not ask")
        broker.send(Claims(broker.epoch, broker.hellos()[-1].generation, []))
        gateway.wait_for(lambda: used_bytes(gateway) == 0, "a slot has leaked")


def test_no_arena_where_none_is_wanted_or_shared(
    broker: FakeBroker, start_gateway: StartGateway
) -> None:
    off = start_gateway(arena_bytes=0).wait_until_ready()
    assert broker.folder is not None
    broker.folder.token = "f" * 32  # as of a folder on another host
    elsewhere = start_gateway(arena_bytes=8 << 20).wait_until_ready()
    for number, gateway in enumerate((off, elsewhere), 1):
        with ask(gateway, MEGABYTE):
            assert body_of(broker.wait_for_items(number)[-1]) == MEGABYTE
        assert gateway.metrics()["millstream_arena_limit_bytes"] == 0


# ------------------------------------------------------------------ bodies that never become whole


def test_a_hang_up_in_the_middle(broker: FakeBroker, gateway: RunningGateway) -> None:
    begin(gateway).socket.close()
    gateway.wait_for(lambda: used_bytes(gateway) == 0, "a slot has leaked")
    assert not broker.items


@pytest.mark.parametrize(
    ("timeout_ms", "answer"), [("100", "deadline_exceeded"), ("9000", "body_timeout")]
)
def test_a_body_that_does_not_come_in_time(
    broker: FakeBroker, start_gateway: StartGateway, timeout_ms: str, answer: str
) -> None:
    gateway = with_arena(broker, start_gateway(arena_bytes=8 << 20, body_timeout_s=0.4))
    with begin(gateway, X_Timeout_Ms=timeout_ms) as client:
        assert client.read_response().code == answer
        assert used_bytes(gateway) == 0


def test_a_body_that_grows_too_large(broker: FakeBroker, start_gateway: StartGateway) -> None:
    options = {"arena_bytes": 8 << 20, "max_body_bytes": len(MEGABYTE) - 1}
    gateway = with_arena(broker, start_gateway(**options))
    with ask(gateway, MEGABYTE) as client:
        assert client.read_response().code == "body_too_large"
    chunked = b"%x\r\n%b\r\n" % (len(MEGABYTE), MEGABYTE)
    with ask(gateway, chunked, Transfer_Encoding="chunked") as client:
        assert client.read_response().code == "body_too_large"
    with ask(gateway, gzip.compress(MEGABYTE), Content_Encoding="gzip") as client:
        assert client.read_response().code == "body_too_large"
    assert used_bytes(gateway) == 0


def test_a_body_that_no_longer_fits_the_bounds(broker: FakeBroker, gateway: RunningGateway) -> None:
    with begin(gateway) as client:
        broker.pipelines = [digits(max_bytes=len(MEGABYTE) // 2, versions=["v2"])]
        broker.announce()
        gateway.wait_for(
            lambda: gateway.request("GET", "/pipelines/digits").json()["versions"] == ["v2"],
            "no new bounds",
        )
        client.send(MEGABYTE[len(MEGABYTE) // 2 :])
        assert client.read_response().code == "queue_full"
        assert used_bytes(gateway) == 0


# ------------------------------------------------------------------ again


def test_another_broker_gets_the_same_slot(
    broker: FakeBroker, gateway: RunningGateway, folder: ArenaFolder
) -> None:
    with ask(gateway, MEGABYTE) as client:
        (item,) = broker.wait_for_items(1)
        broker.stop()
        with FakeBroker(broker.address, epoch=2, folder=folder, respond=lambda _: None) as second:
            (again,) = second.wait_for_items(1)
            assert the_ref(again) == the_ref(item)
            assert second.hellos()[-1].arena == the_ref(item).arena
            assert seen_in(folder, again) == MEGABYTE
            second.answer(again, b"fine")
            assert client.read_response().status == 200
            free(second, gateway, again)


def test_a_broker_elsewhere_gets_the_bytes(broker: FakeBroker, gateway: RunningGateway) -> None:
    with ask(gateway, MEGABYTE) as client:
        broker.wait_for_items(1)
        broker.stop()
        with FakeBroker(broker.address, epoch=2) as second:
            assert client.read_response().body == MEGABYTE
            assert second.hellos()[-1].arena == 0


def test_what_could_not_be_read_is_sent_as_bytes(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    with ask(gateway, MEGABYTE) as client:
        (item,) = broker.wait_for_items(1)
        broker.send(Unknown(broker.epoch, [item.seq]))
        broker.send(Free(broker.epoch, [the_ref(item).generation]))
        _, again = broker.wait_for_items(2)
        assert (again.seq, again.again) == (item.seq, True)
        assert body_of(again) == MEGABYTE
        gateway.wait_for(lambda: used_bytes(gateway) == 0, "a slot has leaked")
        broker.answer(again, b"fine")
        assert client.read_response().status == 200


def test_a_killer_is_known_wherever_it_lies(broker: FakeBroker, gateway: RunningGateway) -> None:
    broker.respond = lambda _: Failure(ErrorCode.WORKER_CRASHED, "it died")
    assert gateway.post(MEGABYTE).code == "worker_crashed"
    chunked = b"%x\r\n%b\r\n" % (len(MEGABYTE), MEGABYTE) + b"0\r\n\r\n"
    with ask(gateway, chunked, Transfer_Encoding="chunked") as client:
        assert client.read_response().code == "worker_crashed"
    with ask(gateway, gzip.compress(MEGABYTE), Content_Encoding="gzip") as client:
        assert client.read_response().code == "worker_crashed"
    (item,) = broker.items
    free(broker, gateway, item)


def test_a_result_that_nobody_could_read_for_us(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    lost = Blob(b"", [5], "", [None], [Ref(1, 0, 1, 0, 5)])
    broker.respond = lambda item: Answer(item.seq, lost)
    assert gateway.post().code == "worker_lost"


# ------------------------------------------------------------------ the end


@pytest.mark.parametrize("alone", [False, True])
def test_nothing_is_left(
    broker: FakeBroker, gateway: RunningGateway, folder: ArenaFolder, alone: bool
) -> None:
    with ask(gateway, MEGABYTE) as client:
        broker.wait_for_items(1)
        assert len(folder.arenas()) == 1
        if alone:
            broker.stop()
        gateway.stop()
        assert client.read_response().code == "draining"
        gateway.join()
    assert folder.arenas() == []


def test_a_storm_of_uploads_leaves_nothing(broker: FakeBroker, gateway: RunningGateway) -> None:
    until = time.monotonic() + 1.0
    rounds = 0
    while time.monotonic() < until:
        rounds += 1
        clients = [ask(gateway, MEGABYTE[: 1 << 18]) for _ in range(8)]
        items = broker.wait_for_items(8 * rounds)[-8:]
        for number, (client, item) in enumerate(zip(clients, items, strict=True)):
            if number % 2:
                broker.answer(item, b"fine")
                assert client.read_response().status == 200
            client.socket.close()
        refs = [ref.generation for item in items for ref in refs_of(item.payload)]
        assert refs
        broker.send(Free(broker.epoch, refs))
    gateway.wait_for(lambda: used_bytes(gateway) == 0, "a slot has leaked")
