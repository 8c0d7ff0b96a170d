"""Voice: when somebody speaks in a recording, told as it is found, by Silero's model.

A result is a stream: what is carried from one second of sound to the next is in the local
variables of its generator, and goes with it.
"""

import asyncio
import io
import os
import wave
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from millstream import Reject, Worker

RATE = 16_000
WINDOW = 512
"""Samples that the model judges at a time: 32 ms."""
CONTEXT = 64
"""Samples before them that it looks at, too."""
BLOCK = 31
"""Windows in one call of the model: about a second."""
BEGINS, ENDS = 0.5, 0.35
"""Speech begins at a probability of so much, and ends when it stays below the other"""
PAUSE_S = 0.25
"""for so long."""

Sound = NDArray[np.float32]


class Voice(Worker):
    max_batch_size = 8
    max_streams = 64
    streams = True

    def setup(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
        # The package itself imports torch; the model alone does without.
        folder = Path(str(find_spec("silero_vad").origin)).parent  # type: ignore[union-attr]
        self.model = onnxruntime.InferenceSession(
            folder / "data" / "silero_vad_16k_sequence.onnx",
            options,
            providers=["CPUExecutionProvider"],
        )
        self.example = np.zeros(RATE, np.float32)

    def decode(self, body: memoryview, content_type: str) -> Sound:
        try:
            with wave.open(io.BytesIO(body)) as file:
                form = file.getframerate(), file.getnchannels(), file.getsampwidth()
                frames = file.readframes(file.getnframes())
        except (wave.Error, EOFError) as error:
            raise Reject(f"the body is no WAV file: {error}") from error
        if form != (RATE, 1, 2):
            raise Reject("send 16 bits at 16 kHz, one channel", status=422)
        samples = np.frombuffer(frames[: len(frames) // 2 * 2], "<i2")
        return samples.astype(np.float32) / np.float32(32768)

    async def forward(self, batch: list[Sound]) -> list[AsyncIterator[dict[str, Any]]]:
        return [self.listen(sound) for sound in batch]

    async def listen(self, sound: Sound) -> AsyncIterator[dict[str, Any]]:
        began_at, silent_since = None, None
        for number, probability in enumerate(self.probabilities(sound)):
            if number % BLOCK == 0:
                await asyncio.sleep(0)  # the other streams take their turn
            at_s = number * WINDOW / RATE
            if probability >= BEGINS:
                silent_since = None
                if began_at is None:
                    began_at = at_s
                    yield {"event": "begin", "at_s": round(at_s, 2)}
            elif began_at is not None and probability < ENDS:
                silent_since = at_s if silent_since is None else silent_since
                if at_s - silent_since >= PAUSE_S:
                    yield ended(began_at, silent_since)
                    began_at, silent_since = None, None
        if began_at is not None:
            yield ended(began_at, len(sound) / RATE if silent_since is None else silent_since)
        yield {"event": "listened", "seconds": round(len(sound) / RATE, 2)}

    def probabilities(self, sound: Sound) -> Iterator[float]:
        """That somebody speaks, for each window; a second is computed when it is asked for."""
        state = dict.fromkeys(("h", "c"), np.zeros((1, 1, 128), np.float32))
        context = np.zeros(CONTEXT, np.float32)
        for start in range(0, len(sound), BLOCK * WINDOW):
            block = sound[start : start + BLOCK * WINDOW]
            whole = np.pad(block, (0, -len(block) % WINDOW))
            run = np.concatenate([context, whole])
            windows = np.lib.stride_tricks.sliding_window_view(run, CONTEXT + WINDOW)[::WINDOW]
            asked = {"input": np.ascontiguousarray(windows), **state}
            found, h, c = self.model.run(["speech_probs", "hn", "cn"], asked)
            state, context = {"h": h, "c": c}, run[-CONTEXT:]
            yield from np.ravel(found).tolist()


def ended(began_at: float, at_s: float) -> dict[str, Any]:
    return {"event": "end", "at_s": round(at_s, 2), "seconds": round(at_s - began_at, 2)}
