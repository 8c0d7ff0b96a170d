"""Draw `samples/delivery.png`: a delivery note, in Pillow's own font."""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

SAMPLE = Path(__file__).parent / "samples" / "delivery.png"
LINES = {(24, 20): "Water Mill", (300, 24): "No. 2041", (24, 84): "Wheat flour", (300, 84): "25 kg",
         (24, 134): "Rye flour", (300, 134): "40 kg", (24, 198): "Delivered"}  # fmt: skip


def draw(lines: dict[tuple[int, int], str], size: tuple[int, int]) -> Image.Image:
    """Black on white, each line at its place (left, top)."""
    image = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(image)
    for place, text in lines.items():
        pen.text(place, text, fill="black", font=ImageFont.load_default(26))
    return image


if __name__ == "__main__":
    SAMPLE.parent.mkdir(exist_ok=True)
    draw(LINES, (440, 250)).save(SAMPLE, optimize=True)
