"""Pages that tell of a whole deployment: it is started, asked, and answers as the page says."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from millstream.testing import pipeline
from tests.pages.blocks import Block, block_of, is_server, stories, words_of
from tests.pages.ledger import runner
from tests.pages.shell import Shell
from tests.pages.snippets import SNIPPETS, Snippet

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(200),
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl"),
]


@pytest.mark.parametrize("page", stories())
def test_it_does_as_it_says(press: Shell, page: str) -> None:
    blocks = [each for each in stories()[page] if runner(each) == "test_stories.py"]
    said: list[str] = []
    for block in blocks:
        if block.language in {"sh", "console"}:
            said = run(press, block, page, stories()[page])
        elif block.language == "json":
            assert [json.loads(line) for line in said] == [
                json.loads(line) for line in block.text.splitlines()
            ], block.where
        elif block.language == "python" and not block.file and not block.is_foreign:
            press.python(block.text, page)


def run(press: Shell, block: Block, page: str, blocks: list[Block]) -> list[str]:
    """What the commands of a block write, line by line."""
    said: list[str] = []
    for command in block.commands:
        if is_server(command):
            check_server(command, blocks)
        else:
            said += press.run(command, page).splitlines()
    if block.language == "console":
        shown = [line for line in block.text.splitlines() if not line.startswith("$ ")]
        assert [line for line in said if line] == [line for line in shown if line], block.where
    return said


def check_server(command: str, blocks: list[Block]) -> None:
    """What it would start runs: workers as they are written, broker and gateway for all pages."""
    kind, *rest = words_of(command)[1:]
    if kind == "broker":
        assert set(rest) <= {block.file for block in blocks}, command
    elif kind == "gateway":
        assert not rest, f"{command}: the one gateway of all stories has no options"


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda each: each.name)
def test_a_plug_in_of_which_a_page_shows_a_part(
    snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, which answers as a deployment does: see tests/system/test_testing.py."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # the folder of a script becomes a part of it
    shown = block_of(snippet.page, snippet.words).text
    script = tmp_path / f"{snippet.name}.py"
    script.write_text(f"{snippet.before}{shown}{snippet.after}")
    with pipeline(f"{script}:Shown") as chain:
        answer = chain(snippet.body.encode())
    assert answer.status == 200, answer
    assert answer.json() == json.loads(snippet.answer)
