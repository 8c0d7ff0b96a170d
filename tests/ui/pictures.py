"""Takes the pictures of docs/ui.md: `python -m tests.ui.pictures [FOLDER] [SECONDS]`.

A deployment under load is watched for so many seconds, which fills the charts.
"""

import asyncio
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image

from tests.edges.chromium import Chromium
from tests.ui.mill import Load, deployment

WIDE = (1280, 900)
NARROW = (390, 844)
CLIENTS = 64


async def take(url: str, folder: Path, seconds: float) -> None:
    """Four of them: wide and narrow, dark and light."""
    async with Chromium() as browser:
        await browser.look(width=WIDE[0], height=WIDE[1], scheme="dark")
        await browser.open(f"{url}/ui#photos")
        await browser.wait_for("document.body?.dataset.drawn > 2")
        await asyncio.sleep(seconds)
        for name, (width, height) in (("wide", WIDE), ("narrow", NARROW)):
            for scheme in ("dark", "light"):
                await browser.look(width=width, height=height, scheme=scheme)
                drawn = await browser.run("Number(document.body.dataset.drawn)")
                await browser.wait_for(f"document.body?.dataset.drawn > {drawn + 2}")
                picture = await browser.whole(scale=0.75 if name == "wide" else 0.6)
                save(picture, folder / f"ui-{name}-{scheme}.png")
        print(browser.complaints)  # noqa: T201


def save(picture: bytes, path: Path) -> None:
    """With no more colours than it needs: a third of the size."""
    Image.open(BytesIO(picture)).convert("RGB").quantize(200, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


def main() -> None:
    """See the module."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    folder.mkdir(parents=True, exist_ok=True)
    with deployment() as mill, Load(mill, CLIENTS):
        asyncio.run(take(f"http://127.0.0.1:{mill.port}", folder, seconds))


if __name__ == "__main__":
    main()
