"""Requests with bytes changed, dropped and doubled: whatever comes, the gateway stays itself."""

import logging
import random

import pytest

from tests.integration.gateway.harness import RunningGateway

SEEDS = [
    b"POST /pipelines/digits HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /pipelines/digits HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;a=b\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
    b"POST /inference HTTP/1.0\r\nX-Timeout-Ms: 100\r\nX-Priority: low\r\n"
    b"Content-Length: 2\r\n\r\n{}",
    b"GET /readyz?pipeline=digits HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"POST http://t:1/pipelines/digits?a=%zz#f HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n"
    b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
]
BYTES = b"\r\n\0 \t:/%?#[]{}\x7f\x80\xff0159aZ"


def mutate(rng: random.Random, data: bytes) -> bytes:
    """A few bytes of it changed."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(out))
        match rng.randrange(4):
            case 0:
                out[at] = rng.choice(BYTES)
            case 1:
                del out[at : at + rng.randrange(1, 8)]
            case 2:
                out[at:at] = bytes([rng.choice(BYTES)]) * rng.randrange(1, 4)
            case _:
                out[at:at] = out[at : at + rng.randrange(1, 30)]
        if not out:
            break
    return bytes(out)


@pytest.mark.parametrize("seed", range(10))
def test_changed_requests(
    gateway: RunningGateway, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    rng = random.Random(seed)
    for _ in range(100):
        with gateway.connect() as client:
            client.send(mutate(rng, rng.choice(SEEDS)))
            client.socket.shutdown(1)
            answer = b""
            try:
                while data := client.socket.recv(1 << 16):
                    answer += data
            except ConnectionResetError:
                pass
            assert not answer or answer.startswith(b"HTTP/1.1 "), answer
    assert gateway.post(b"fine").body == b"fine"
    samples = gateway.metrics()
    assert samples['millstream_gateway_waiting_items{pipeline="digits"}'] == 0
    assert samples['millstream_gateway_held_bytes{pipeline="digits"}'] == 0
    bugs = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not bugs
