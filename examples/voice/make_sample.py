"""Make `samples/two.wav`: two sentences that espeak-ng speaks, with pauses around them.

Needs the program espeak-ng (`apt-get install espeak-ng`); the file is there already.
"""

import subprocess
import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RATE = 16_000
SAMPLE = Path(__file__).parent / "samples" / "two.wav"


def say(text: str) -> NDArray[np.int16]:
    """Spoken, at our rate."""
    spoken = subprocess.run(
        ["espeak-ng", "-v", "en-us", "-s", "150", "--stdout", text], capture_output=True, check=True
    ).stdout
    samples = np.frombuffer(spoken[44:], "<i2")  # after the header
    places = np.arange(0, len(samples), 22_050 / RATE)
    ours: NDArray[np.int16] = np.interp(places, np.arange(len(samples)), samples).astype(np.int16)
    return ours


def pause(seconds: float) -> NDArray[np.int16]:
    """Silence."""
    return np.zeros(int(seconds * RATE), np.int16)


if __name__ == "__main__":
    first, second = say("The river turns the wheel."), say("And the wheel turns the stone.")
    sound = np.concatenate([pause(0.8), first, pause(1.0), second, pause(0.5)])
    SAMPLE.parent.mkdir(exist_ok=True)
    with wave.open(str(SAMPLE), "wb") as file:
        file.setparams((1, 2, RATE, len(sound), "NONE", ""))
        file.writeframes(sound.astype("<i2").tobytes())
