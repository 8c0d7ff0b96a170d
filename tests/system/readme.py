"""The fenced blocks of README.md, for the tests that run them."""

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


def blocks(language: str) -> list[Block]:
    """The blocks in this language, in their order; "" are those that name none."""
    found = [Block(*match.groups()) for match in _FENCE.finditer(README.read_text())]
    return [block for block in found if block.language == language]


def block_with(language: str, words: str) -> Block:
    """The one block in this language that has these words."""
    (block,) = [block for block in blocks(language) if words in block.text]
    return block
