"""From a picture of one digit, as people send them, to the form that the model was trained on."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

SIDE = 8
LARGEST_SIDE = 256  # enough to find the strokes; what is larger is first made smaller


def to_digit(image: Image.Image) -> NDArray[np.float32]:
    """Cut out the strokes and centre them: (8, 8) float32 in 0..1, bright on dark; 0 where blank.

    Raises what Pillow raises where the image data is broken.
    """
    strokes = bright_on_dark(flat_grey(image))
    rows, columns = np.nonzero(strokes > 0.3)
    digit = np.zeros((SIDE, SIDE), np.float32)
    if rows.size:
        ink = strokes[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        height, width = (max(1, round(SIDE * n / max(ink.shape))) for n in ink.shape)
        top, left = (SIDE - height) // 2, (SIDE - width) // 2
        small = Image.fromarray(ink).resize((width, height), Image.Resampling.BOX)
        digit[top : top + height, left : left + width] = np.asarray(small)
    return digit


def flat_grey(image: Image.Image) -> NDArray[np.float32]:
    """Any mode to grey in 0..1, at most 256 on a side; what is transparent becomes background."""
    image.draft("L", (LARGEST_SIDE, LARGEST_SIDE))  # lets a large JPEG be decoded at a fraction
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):  # 16 bits a pixel, of which scanners may use only some
        deep = np.asarray(image, np.float32)
        image = Image.fromarray((deep * (255 / max(deep.max(), 1))).astype(np.uint8))
    clear = image.has_transparency_data
    image = image.convert("RGBA").convert("LA") if clear else image.convert("L")
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE), Image.Resampling.BOX)
    levels: NDArray[np.float32] = np.asarray(image, np.float32) / np.float32(255)
    if not clear:
        return levels
    grey, alpha = levels[..., 0], levels[..., 1]
    # Bright strokes on nothing get a dark background, dark ones a bright one.
    background = 0.0 if (grey * alpha).sum() > alpha.sum() / 2 else 1.0
    flat: NDArray[np.float32] = grey * alpha + background * (1 - alpha)
    return flat


def bright_on_dark(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """Stretch the contrast to 0..1, and invert where most of the border is bright, as on paper."""
    strokes: NDArray[np.float32] = (grey - grey.min()) / max(np.ptp(grey), 0.1)
    border = np.concatenate([strokes[0], strokes[-1], strokes[:, 0], strokes[:, -1]])
    return 1 - strokes if np.median(border) > 0.5 else strokes
