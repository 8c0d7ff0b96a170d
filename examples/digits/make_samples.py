"""Make the pictures in samples/ from held-out digits that the trained model is surest about.

    python examples/digits/make_samples.py

One PNG for each digit, bright on dark as in the dataset, and a JPEG of another 3 as on paper.
"""

from pathlib import Path

import torch
from PIL import Image, ImageOps
from train import MODEL, load, load_split

SAMPLES = Path(__file__).parent / "samples"


def picture(digit: torch.Tensor) -> Image.Image:
    """(8, 8) in 0..1 as a grey image large enough to look at."""
    pixels = (digit * 255).round().to(torch.uint8).numpy()
    return Image.fromarray(pixels).resize((64, 64), Image.Resampling.BICUBIC)


def main() -> None:
    """Write the samples over those that are there."""
    split, net = load_split(), load(MODEL)
    with torch.inference_mode():
        probabilities = net(split.held_out_images).softmax(dim=1)
    SAMPLES.mkdir(exist_ok=True)
    for label in range(10):
        of_label = split.held_out_images[split.held_out_labels == label]
        surest = probabilities[split.held_out_labels == label, label].argsort(descending=True)
        picture(of_label[surest[0]]).save(SAMPLES / f"{label}.png", optimize=True)
        if label == 3:
            ImageOps.invert(picture(of_label[surest[1]])).save(SAMPLES / "3.jpg", quality=85)


if __name__ == "__main__":
    main()
