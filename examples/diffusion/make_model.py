"""Make a tiny Stable Diffusion pipeline with random weights, in seconds on a CPU.

    python make_model.py

Writes the folder `model` beside this file as diffusers reads it: a stand-in, of the right form and
64 pixels wide, that draws noise. Any Stable Diffusion that was saved by `save_pretrained`, or
downloaded, will do in its place.
"""

from itertools import count
from pathlib import Path

import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

MODEL = Path(__file__).parent / "model"
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"


def tokenizer() -> CLIPTokenizer:
    """Of letters, each also as the last of a word."""
    pieces = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS)]
    pieces += ["<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab=dict(zip(pieces, count())), merges=[], model_max_length=77)


def main() -> None:
    torch.manual_seed(0)
    words = tokenizer()
    text = CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    pipeline = StableDiffusionPipeline(
        text_encoder=CLIPTextModel(text),
        tokenizer=words,
        unet=UNet2DConditionModel(
            sample_size=8,
            layers_per_block=1,
            block_out_channels=(32, 64),
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=32,
        ),
        vae=AutoencoderKL(  # eight pixels for one of the net, as in the real ones
            block_out_channels=(32,) * 4,
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
        ),
        scheduler=DDIMScheduler(beta_schedule="scaled_linear", clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.save_pretrained(MODEL)


if __name__ == "__main__":
    main()
