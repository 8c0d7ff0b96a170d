"""Files that pages show: each is one of its kind, and commands in it have their options."""

import ast
import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml  # type: ignore[import-untyped]  # it ships no types

from broker.config import load_pipelines
from millstream.cli import app
from tests.pages.blocks import Block, every_block, words_of

BLOCKS = list(every_block())
PIPELINE = '[pipelines.digits]\nchain = ["preprocess", "infer", "postprocess"]\n'
_COMMAND = re.compile(r"\bmillstream (?:broker|gateway|worker)\b[^\n]*")


def in_language(*languages: str) -> pytest.MarkDecorator:
    """Once for each block in one of them."""
    found = [each for each in BLOCKS if each.language in languages]
    return pytest.mark.parametrize("block", found, ids=lambda each: f"{each.page}:{each.line}")


@in_language("toml")
def test_pipeline_files_are_read(block: Block, tmp_path: Path) -> None:
    needs_chain = "chain" not in block.text
    path = tmp_path / "pipelines.toml"
    path.write_text((PIPELINE if needs_chain else "") + block.text)
    assert load_pipelines([str(path)])


@in_language("yaml")
def test_yaml(block: Block) -> None:
    assert isinstance(yaml.safe_load(block.text), dict)


@in_language("ini")
def test_units_of_systemd(block: Block) -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.read_string(block.text)
    assert unit["Service"]["ExecStart"]


@in_language("yaml", "ini", "procfile", "sh")
def test_commands_have_their_options(block: Block) -> None:
    program: Any = typer.main.get_command(app.program())
    for line in _COMMAND.findall(block.text):
        name, *rest = words_of(line)[1:]
        known = {option for each in program.commands[name].params for option in each.opts}
        used = {word for word in rest if word.startswith("--")}
        assert used <= known | {"--help"}, line


def test_what_is_for_other_servers_is_python() -> None:
    foreign = [each for each in BLOCKS if each.is_foreign and each.language == "python"]
    assert len(foreign) >= 4
    for block in foreign:
        ast.parse(block.text, block.where)
