"""Train the digits model on scikit-learn's bundled handwritten digits, in seconds on a CPU.

    python examples/digits/train.py [--if-missing] [--out FOLDER] [--seed N]

Writes `digits.pt` into the folder, by default `model` beside this file: a state dict, replaced
atomically, so that a worker that starts meanwhile reads the old file or the new one, never half of
one. Another seed makes another model, as good as the first: a version to try out beside it.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from model import DigitNet
from rich.console import Console
from rich.progress import Progress
from torch.nn import functional

MODEL = Path(__file__).parent / "model" / "digits.pt"
LEAST_ACCURACY = 0.97
SEED = 0
EPOCHS = 30
BATCH_SIZE = 64
LEARNING_RATE = 3e-3


class Split(NamedTuple):
    """Images (n, 8, 8) float32 in 0..1 and labels (n,) int64."""

    train_images: torch.Tensor
    train_labels: torch.Tensor
    held_out_images: torch.Tensor
    held_out_labels: torch.Tensor


def load_split() -> Split:
    """Load the dataset; the fifth that is held out is the same on every call."""
    # Imported here because finding a trained model in place needs no scikit-learn.
    from sklearn.datasets import load_digits  # noqa: PLC0415
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels.reshape(-1, 8, 8) / 16, dtype=torch.float32)
    train, held_out = train_test_split(
        torch.arange(len(images)), test_size=0.2, random_state=SEED, stratify=labels
    )
    labels = torch.tensor(labels)
    return Split(images[train], labels[train], images[held_out], labels[held_out])


def jitter(images: torch.Tensor) -> torch.Tensor:
    """Stretch, turn, slant and shift each image a little: scans are never cropped alike."""
    n = len(images)
    angle, slant = 0.1 * torch.randn(n), 0.15 * torch.randn(n)
    affine = torch.zeros(n, 2, 3)
    affine[:, 0, 0] = (1 + 0.15 * torch.randn(n)) * angle.cos()
    affine[:, 0, 1] = slant - angle.sin()
    affine[:, 1, 0] = angle.sin()
    affine[:, 1, 1] = (1 + 0.08 * torch.randn(n)) * angle.cos()
    affine[:, :, 2] = 0.5 * torch.rand(n, 2) - 0.25
    grid = functional.affine_grid(affine, [n, 1, 8, 8], align_corners=False)
    return functional.grid_sample(images.unsqueeze(1), grid, align_corners=False).squeeze(1)


def train(net: DigitNet, images: torch.Tensor, labels: torch.Tensor) -> Iterator[float]:
    """Train in place; yields the mean loss of each epoch."""
    steps = -(-len(images) // BATCH_SIZE)
    optimizer = torch.optim.AdamW(net.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, epochs=EPOCHS, steps_per_epoch=steps
    )
    for _ in range(EPOCHS):
        net.train()
        total = 0.0
        for chosen in torch.randperm(len(images)).chunk(steps):
            loss = functional.cross_entropy(
                net(jitter(images[chosen])), labels[chosen], label_smoothing=0.01
            )
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
            total += loss.item()
        yield total / steps


def accuracy(net: DigitNet, images: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of images that the net classifies right."""
    net.eval()
    with torch.inference_mode():
        right = net(images).argmax(1) == labels
    return int(right.sum()) / len(labels)


def load(path: Path) -> DigitNet:
    """Load a trained model; raises whatever torch does where the file holds none that fits."""
    net = DigitNet()
    net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return net.eval()


def is_usable(path: Path) -> bool:
    """Whether the file holds a model of today's shape: not half of one, not an older one."""
    try:
        load(path)
    except Exception:
        return False
    return True


def save(net: DigitNet, path: Path) -> None:
    """Write the state dict under another name, then put it in place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        torch.save(net.state_dict(), unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def show(losses: Iterator[float]) -> None:
    """Run the training: a progress bar on a terminal, else a line now and then."""
    console = Console()
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("Training", total=EPOCHS)
        for epoch, loss in enumerate(losses, start=1):
            progress.update(task, advance=1, description=f"Training, loss {loss:.3f}")
            if not console.is_terminal and epoch % 10 == 0:
                print(f"epoch {epoch} of {EPOCHS}, loss {loss:.3f}", flush=True)


def main() -> int:
    """Train, check on the held-out images, save; returns the exit code."""
    parser = argparse.ArgumentParser(description="Train the digits model.")
    parser.add_argument(
        "--if-missing", action="store_true", help="do nothing when a usable model is there"
    )
    parser.add_argument("--out", type=Path, default=MODEL.parent, help="the folder to write to")
    parser.add_argument("--seed", type=int, default=SEED, help="for the training's chances")
    arguments = parser.parse_args()
    path: Path = arguments.out / MODEL.name
    if arguments.if_missing and is_usable(path):
        return 0

    torch.manual_seed(arguments.seed)
    split, net = load_split(), DigitNet()
    show(train(net, split.train_images, split.train_labels))
    right = accuracy(net, split.held_out_images, split.held_out_labels)
    print(f"held-out accuracy {right:.1%} on {len(split.held_out_labels)} images")
    if right < LEAST_ACCURACY:
        print(f"that is under {LEAST_ACCURACY:.0%}: not saved", file=sys.stderr)
        return 1
    save(net, path)
    print(f"saved to {os.path.relpath(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
