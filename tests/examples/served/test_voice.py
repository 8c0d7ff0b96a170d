"""Voice: where espeak-ng speaks in the sample is found; noise, tones and silence are no speech."""

import io
import wave
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from millstream import Client as Caller
from tests.examples.served.examples import needs, run_shown
from tests.system.client import Client
from tests.system.deployment import Deployment
from tests.system.readme import ROOT

pytestmark = [pytest.mark.system, needs("voice")]
SAMPLE = (ROOT / "examples" / "voice" / "samples" / "two.wav").read_bytes()
RATE = 16_000


def wav(sound: NDArray[Any], *, rate: int = RATE, channels: int = 1) -> bytes:
    body = io.BytesIO()
    with wave.open(body, "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes((sound * 32767).astype("<i2").tobytes())
    return body.getvalue()


def samples() -> NDArray[np.float64]:
    with wave.open(io.BytesIO(SAMPLE)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768


def events(mill: Deployment, body: bytes) -> list[dict[str, Any]]:
    """Those before the last, which says how much was listened to."""
    with Caller(f"http://127.0.0.1:{mill.port}", timeout_s=110.0) as caller:
        *found, last = caller.stream("voice", body, content_type="audio/wav")
    assert last["event"] == "listened"
    return found


def test_speech_is_found_where_it_is(mill: Deployment) -> None:
    is_loud = np.abs(samples()) > 0.02
    loud_s = np.flatnonzero(is_loud) / RATE
    (gap,) = np.flatnonzero(np.diff(loud_s) > 0.9)
    truth = [loud_s[0], loud_s[gap], loud_s[gap + 1], loud_s[-1]]

    found = events(mill, SAMPLE)

    assert [event["event"] for event in found] == ["begin", "end"] * 2
    assert np.abs(np.subtract([event["at_s"] for event in found], truth)).max() < 0.3


def test_state_is_carried_from_block_to_block(mill: Deployment) -> None:
    """A minute of it is found as often as it is in there, wherever the blocks end."""
    found = events(mill, wav(np.tile(samples(), 10)))
    assert [event["event"] for event in found] == ["begin", "end"] * 20


@pytest.mark.parametrize("name", ["noise", "tone", "silence", "nothing"])
def test_what_is_no_speech_is_none(mill: Deployment, name: str) -> None:
    rng = np.random.default_rng(0)
    sounds = {
        "noise": rng.normal(0, 0.1, 2 * RATE).clip(-1, 1),
        "tone": 0.3 * np.sin(np.arange(2 * RATE) * 2 * np.pi * 440 / RATE),
        "silence": np.zeros(2 * RATE),
        "nothing": np.zeros(0),
    }
    assert events(mill, wav(sounds[name])) == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"RIFF....WAVE", 400),
        (wav(np.zeros(800), rate=8_000), 422),
        (wav(np.zeros(800), channels=2), 422),
    ],
    ids=["nothing", "no sound", "8 kHz", "two channels"],
)
def test_what_it_cannot_listen_to_is_refused(client: Client, body: bytes, status: int) -> None:
    answer = client.post("/pipelines/voice", body, {"Content-Type": "audio/wav"})
    assert (answer.status, answer.code) == (status, "rejected")


def test_what_the_page_shows(mill: Deployment) -> None:
    for ran in run_shown(mill, "voice"):
        assert ran.written == ran.shown
