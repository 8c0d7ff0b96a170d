"""The fenced blocks of README.md, and of other pages, for the tests that run them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
URL = "http://127.0.0.1:8000"
"""Where the README's requests go to."""

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One fenced block."""

    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Its commands."""
        return self.text.splitlines()


def blocks(language: str, page: Path = README) -> list[Block]:
    """The blocks in this language, in their order; "" are those that name none."""
    found = [Block(*match.groups()) for match in _FENCE.finditer(page.read_text())]
    return [block for block in found if block.language == language]


def block_with(language: str, words: str, page: Path = README) -> Block:
    """The one block in this language that has these words."""
    (block,) = [block for block in blocks(language, page) if words in block.text]
    return block
