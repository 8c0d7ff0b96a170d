"""Streams through all processes: what clients see, in order and to the end, and what stops them."""

import asyncio
import json
import socket
import statistics
import time
from typing import Any

import pytest

from tests.streams.conftest import Tellers
from tests.streams.reader import Event, Reader
from tests.system.deployment import wait_until

pytestmark = pytest.mark.system


def read(tellers: Tellers, path: str, asked: Any, **headers: str) -> tuple[Reader, list[Event]]:
    """One stream, to its end."""

    async def reading() -> tuple[Reader, list[Event]]:
        async with Reader(tellers.mill.port, path, asked, **headers) as reader:
            return reader, await reader.all()

    return asyncio.run(asyncio.wait_for(reading(), 20.0))


def values(events: list[Event]) -> list[Any]:
    """What came before the end, which must be one."""
    *before, end = events
    assert (end.name, end.data) == ("end", {"values": len(before)})
    assert not any(event.name for event in before)
    return [event.data for event in before]


class TestAnswers:
    def test_an_event_for_each_value_and_one_for_the_end(self, tellers: Tellers) -> None:
        before = tellers.counted("tell", 200)
        reader, events = read(tellers, "/pipelines/tell", {"count": 3}, X_Request_Id="mine")
        assert [value["n"] for value in values(events)] == [0, 1, 2]
        head = reader.headers
        assert head["content-type"] == "text/event-stream"
        assert head["cache-control"] == "no-cache"
        assert head["x-request-id"] == "mine"
        assert head["x-model-version"] == "1"
        assert "tell-run;dur=" in head["server-timing"]
        assert tellers.counted("tell", 200) == before + 1

    def test_a_stream_without_values(self, tellers: Tellers) -> None:
        _, events = read(tellers, "/pipelines/tell", {"count": 0})
        assert values(events) == []

    def test_lines_of_json_where_asked_for(self, tellers: Tellers) -> None:
        async def reading() -> list[bytes]:
            asked = {"count": 3, "at": 2, "mishap": "raise"}
            accept = "application/x-ndjson, text/event-stream"
            async with Reader(tellers.mill.port, "/pipelines/tell", asked, Accept=accept) as reader:
                await reader.head()
                assert reader.headers["content-type"] == "application/x-ndjson"
                return [chunk async for chunk in reader.chunks()]

        *lines, last = [json.loads(line) for line in asyncio.run(reading())]
        assert [line["n"] for line in lines] == [0, 1]
        assert last["error"]["code"] == "worker_error"

    def test_async_iterators_with_and_without_an_event_loop(self, tellers: Tellers) -> None:
        for path in ("/pipelines/pace", "/pipelines/driven"):
            _, events = read(tellers, path, {"count": 3, "every_s": 0.01})
            assert len(values(events)) == 3

    def test_values_larger_than_the_window(self, tellers: Tellers) -> None:
        _, events = read(tellers, "/pipelines/tell", {"count": 20, "size": 600_000})
        assert [len(value) for value in values(events)] == [600_000] * 20

    def test_to_a_client_without_chunks(self, tellers: Tellers) -> None:
        body = b'{"count": 2}'
        head = b"POST /pipelines/tell HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body)
        with socket.create_connection(("127.0.0.1", tellers.mill.port), 10.0) as client:
            client.sendall(head + body)
            with client.makefile("rb") as answer:
                head, _, events = answer.read().partition(b"\r\n\r\n")
        assert b"Transfer-Encoding" not in head
        assert events.endswith(b'\n\nevent: end\ndata: {"values": 2}\n\n')

    def test_a_connection_goes_on_after_a_stream(self, tellers: Tellers) -> None:
        with tellers.mill.client() as client:
            for _ in range(2):
                answer = client.post_json("/pipelines/tell", {"count": 2})
                assert answer.body.count(b"\n\n") == 3
            assert client.post_json("/pipelines/tell", "plain").json() == "plain"


class TestErrors:
    @pytest.mark.parametrize(("mishap", "status"), [("raise", 500), ("reject", 422)])
    def test_before_the_first_value_they_are_ordinary(
        self, tellers: Tellers, mishap: str, status: int
    ) -> None:
        with tellers.mill.client() as client:
            answer = client.post_json("/pipelines/tell", {"count": 3, "at": 0, "mishap": mishap})
        assert answer.status == status
        assert answer.code == ("worker_error" if status == 500 else "rejected")

    @pytest.mark.parametrize(
        ("mishap", "code", "status"),
        [
            ("raise", "worker_error", 500),
            ("reject", "rejected", 422),
            ("die", "worker_lost", 503),
            ("nap", "worker_lost", 503),
        ],
    )
    def test_after_it_they_are_the_last_event(
        self, tellers: Tellers, mishap: str, code: str, status: int
    ) -> None:
        before = tellers.counted("tell", status)

        async def reading() -> list[Event]:
            asked = {"count": 9, "at": 5, "mishap": mishap}
            async with Reader(tellers.mill.port, "/pipelines/tell", asked) as reader:
                events = await reader.all()
                assert await reader.at_end()
                return events

        *told, error = asyncio.run(asyncio.wait_for(reading(), 20.0))
        assert [event.data["n"] for event in told] == list(range(5))
        assert error.name == "error"
        assert error.data["error"]["code"] == code
        assert set(error.data["error"]) == {"code", "message", "request_id"}
        assert tellers.counted("tell", status) == before + 1
        tellers.mill.wait_ready()

    def test_one_that_breaks_leaves_the_others_of_its_batch(self, tellers: Tellers) -> None:
        async def one(number: int) -> list[Event]:
            asked = {"count": 200, "at": 100, "mishap": "raise" if number == 3 else ""}
            async with Reader(tellers.mill.port, "/pipelines/tell", asked) as reader:
                return await reader.all()

        async def several() -> list[list[Event]]:
            return await asyncio.gather(*(one(number) for number in range(8)))

        for number, events in enumerate(asyncio.run(several())):
            if number == 3:
                assert [event.name for event in events] == [""] * 100 + ["error"]
            else:
                assert [value["n"] for value in values(events)] == list(range(200))

    def test_a_gap_that_is_too_long(self, tellers: Tellers) -> None:
        _, events = read(tellers, "/pipelines/gap", {"count": 9, "every_s": 60, "id": "gap"})
        assert [event.name for event in events] == ["", "error"]
        assert events[-1].data["error"]["code"] == "deadline_exceeded"
        wait_until(lambda: tellers.marked("closed-gap") == 1, 15.0, "its generator is closed")


class TestMany:
    def test_a_thousand_at_once(self, tellers: Tellers) -> None:
        async def one(number: int) -> list[Event]:
            asked = {"count": 50, "id": number}
            async with Reader(tellers.mill.port, "/pipelines/tell", asked) as reader:
                return await reader.all()

        async def all_of_them() -> list[list[Event]]:
            return await asyncio.gather(*(one(number) for number in range(1000)))

        streams = asyncio.run(asyncio.wait_for(all_of_them(), 40.0))
        for number, events in enumerate(streams):
            assert values(events) == [{"n": n, "of": number} for n in range(50)]

    def test_an_even_pace_while_batches_go_on(self, tellers: Tellers) -> None:
        """The clients' own time is in these figures: they are read by one busy process."""

        async def one(port: int, number: int) -> list[float]:
            await asyncio.sleep(number / 1000.0)
            asked = {"count": 6, "every_s": 0.2}
            async with Reader(port, "/pipelines/pace", asked) as reader:
                events = await reader.all()
            assert len(values(events)) == 6
            return [event.at - event.data for event in events if not event.name]

        async def batches(port: int, until: float) -> list[float]:
            took = []
            while time.monotonic() < until:
                began = time.monotonic()
                async with Reader(port, "/pipelines/pace", 1) as reader:
                    await reader.head()
                    assert await reader.body() == b"1"
                took.append(time.monotonic() - began)
            return took

        async def together() -> tuple[list[float], list[float]]:
            port = tellers.mill.port
            ordinary = asyncio.create_task(batches(port, time.monotonic() + 1.5))
            lags = await asyncio.gather(*(one(port, number) for number in range(300)))
            return [lag for each in lags for lag in each], await ordinary

        lags, took = asyncio.run(asyncio.wait_for(together(), 30.0))
        assert statistics.median(lags) < 1.0
        assert len(took) > 1

    def test_hang_ups_stop_their_generators(self, tellers: Tellers) -> None:
        before = tellers.counted("pace", 499)

        async def one() -> None:
            asked = {"count": 10_000, "every_s": 0.05, "id": "hung-up"}
            async with Reader(tellers.mill.port, "/pipelines/pace", asked) as reader:
                await reader.head()
                async for _ in reader.events():
                    return

        async def all_of_them() -> None:
            await asyncio.gather(*(one() for _ in range(500)))

        asyncio.run(asyncio.wait_for(all_of_them(), 30.0))
        wait_until(lambda: tellers.marked("closed-hung-up") == 500, 20.0, "all are closed")
        assert tellers.streaming("pace") == 0
        assert tellers.counted("pace", 499) == before + 500

    def test_a_hang_up_stops_a_plain_generator(self, tellers: Tellers) -> None:
        async def one() -> None:
            asked = {"count": 10**9, "id": "endless"}
            async with Reader(tellers.mill.port, "/pipelines/tell", asked) as reader:
                await reader.head()
                async for _ in reader.events():
                    return

        asyncio.run(asyncio.wait_for(one(), 10.0))
        wait_until(lambda: tellers.marked("closed-endless") == 1, 15.0, "it is closed")

    def test_a_slow_reader_holds_back_its_own_stream_alone(self, tellers: Tellers) -> None:
        """It reads nothing for longer than streams may be idle, and gets all in the end."""

        async def slowly(port: int) -> list[Event]:
            asked = {"count": 100, "size": 200_000, "id": "slow"}
            async with Reader(port, "/pipelines/brisk", asked) as reader:
                for _ in range(20):  # meanwhile the others read
                    quick = Reader(port, "/pipelines/tell", {"count": 100})
                    async with quick:
                        assert len(values(await quick.all())) == 100
                assert tellers.marked("closed-slow") == 0, "it ran ahead of its client"
                held = tellers.mill.status()["pipelines"]["brisk"]["bytes"]
                assert held < 2_000_000
                await asyncio.sleep(1.5)
                return await reader.all()

        events = asyncio.run(asyncio.wait_for(slowly(tellers.mill.port), 30.0))
        assert len(values(events)) == 100


class TestBrokerLost:
    def test_streams_end_and_their_generators_are_closed(self, tellers: Tellers) -> None:
        """At the latest when the next broker is there."""

        async def reading() -> list[Event]:
            asked = {"count": 10_000, "every_s": 0.02, "id": "orphan"}
            async with Reader(tellers.mill.port, "/pipelines/pace", asked) as reader:
                await reader.head()
                events: list[Event] = []
                async for event in reader.events():
                    if not events:
                        tellers.broker.kill()
                        tellers.broker = tellers.mill.broker()
                    events.append(event)
                return events

        events = asyncio.run(asyncio.wait_for(reading(), 20.0))
        assert events[-1].name == "error"
        assert events[-1].data["error"]["code"] == "worker_lost"
        wait_until(lambda: tellers.marked("closed-orphan") == 1, 15.0, "it is closed")
        tellers.mill.wait_ready()
        _, events = read(tellers, "/pipelines/tell", {"count": 3})
        assert len(values(events)) == 3
