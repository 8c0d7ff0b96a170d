"""The fenced blocks of the README and of all pages below docs/, and what of them is to be run.

A page is a *story* where it has a plug-in and a pipeline file, which begin with `# NAME.py` and
`# NAME.toml`: all of its files are then put into a folder, its commands are run there, and answers
are held against those that are shown.
"""

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (?P<name>[\w./]+\.(?:py|toml))\n")
_FOREIGN = re.compile(r"# (?:MOSEC|TorchServe|LitServe|BentoML|Triton): ")
_SERVER = re.compile(r"millstream (?:broker|gateway|worker)\b")


class Block(NamedTuple):
    """One fenced block."""

    page: str
    """By its path in the repository."""
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.page}:{self.line}: {self.text.splitlines()[0]}"

    @property
    def file(self) -> str:
        """The name of the file that it is, by its first line; else ""."""
        found = _FILE.match(self.text)
        return found["name"] if found and self.language in {"python", "toml"} else ""

    @property
    def is_foreign(self) -> bool:
        """Whether it is for another server."""
        return _FOREIGN.match(self.text) is not None

    @property
    def is_like_commands(self) -> bool:
        """Whether it begins as what is typed does, and not as what is answered."""
        return self.text.startswith(("$ ", "millstream ", "curl ", "make ", "python "))

    @property
    def commands(self) -> list[str]:
        """The lines of a shell, what was continued joined; of a console those after its prompt."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [line for line in lines if line.strip()]


def blocks_of(page: Path) -> list[Block]:
    """Those of a page, in their order."""
    text = page.read_text()
    name = str(page.relative_to(ROOT))
    return [
        Block(name, text.count("\n", 0, found.start()) + 1, found["language"], found["text"])
        for found in _FENCE.finditer(text)
    ]


def every_block() -> Iterator[Block]:
    """Of all pages."""
    for page in PAGES:
        yield from blocks_of(page)


def block_of(page: str, words: str) -> Block:
    """The one block of a page that has these words."""
    (block,) = [block for block in blocks_of(ROOT / page) if words in block.text]
    return block


@functools.cache
def stories() -> dict[str, list[Block]]:
    """The blocks of each page that is a story."""
    found = {str(page.relative_to(ROOT)): blocks_of(page) for page in PAGES}
    return {
        page: blocks
        for page, blocks in found.items()
        if {"python", "toml"} <= {block.language for block in blocks if block.file}
    }


def is_server(command: str) -> bool:
    """Whether this command goes on until it is told to end."""
    return _SERVER.match(command) is not None


def words_of(command: str) -> list[str]:
    """As a shell reads it, without the comment at its end."""
    return shlex.split(command, comments=True)
