"""Diffuse: prompts become pictures by Stable Diffusion, several at a time."""

from typing import Annotated

import msgspec
import numpy as np
import torch
from diffusers import StableDiffusionPipeline
from numpy.typing import NDArray

from millstream import Worker

STEPS = 20


class Prompt(msgspec.Struct):
    prompt: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    negative_prompt: str = ""
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**32)] = 0


class Diffuse(Worker):
    max_batch_size = 4
    inputs = Prompt

    def setup(self) -> None:
        dtype = torch.float32 if self.device == "cpu" else torch.float16
        self.pipeline = StableDiffusionPipeline.from_pretrained(self.model_dir, torch_dtype=dtype)
        self.pipeline.to(self.device)
        self.pipeline.set_progress_bar_config(disable=True)
        self.example = Prompt("a water mill")

    def forward(self, batch: list[Prompt]) -> NDArray[np.uint8]:
        """Pictures (n, height, width, 3)."""
        pictures = self.pipeline(
            [each.prompt for each in batch],
            negative_prompt=[each.negative_prompt for each in batch],
            # One for each picture, so that a seed draws the same beside whatever neighbours.
            generator=[torch.Generator(self.device).manual_seed(each.seed) for each in batch],
            num_inference_steps=STEPS,
            output_type="np",
        ).images
        pixels: NDArray[np.uint8] = (pictures * 255).round().astype(np.uint8)
        return pixels
