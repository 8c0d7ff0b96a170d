"""One deployment for all stories: the pipelines of all pages, and the workers of each."""

import tomllib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.pages.blocks import ROOT, Block, is_server, stories, words_of
from tests.pages.shell import Shell
from tests.system.conftest import pytest_runtest_makereport
from tests.system.deployment import Deployment

__all__ = ["pytest_runtest_makereport"]  # a hook: it shows the logs where a test fails

STAND_INS = Path(__file__).parent / "plugins" / "stand_ins.py"
PICTURE = ROOT / "examples" / "digits" / "samples" / "3.png"
OURS = ("digits", "scores", "chat")
"""Pipelines that pages call without showing them."""


@pytest.fixture(scope="package")
def press() -> Iterator[Shell]:
    """Each page has a folder of its own in it, named like the page."""
    with Deployment() as mill:
        files = [write_stand_ins(mill.folder)]
        for page, blocks in stories().items():
            files += write_story(mill.folder / page, blocks)
        prepare(mill.folder)
        mill.start("broker", *map(str, files))
        for page, blocks in stories().items():
            for command in workers_of(page, blocks):
                spawn_worker(mill, command, mill.folder / page, pipelines_of(blocks))
        mill.worker(STAND_INS)
        mill.gateway()
        mill.wait_ready(150.0)  # some thirty processes, two of which load torch
        yield Shell(mill)


def write_stand_ins(folder: Path) -> Path:
    path = folder / "stand-ins.toml"
    path.write_text("".join(f'[pipelines.{name}]\nchain = ["stand-in"]\n' for name in OURS))
    return path


def write_story(folder: Path, blocks: list[Block]) -> list[Path]:
    """Its files; returns the pipeline files among them."""
    folder.mkdir(parents=True)
    files = [block for block in blocks if block.file]
    for block in files:
        path = folder / block.file
        assert not path.exists(), f"{block.where}: two files of this name"
        path.write_text(block.text)
    return [folder / block.file for block in files if block.language == "toml"]


def prepare(folder: Path) -> None:
    """Files that commands of pages name: a model, a picture, an array."""
    import torch  # noqa: PLC0415  it takes long, and most pages need none

    weights = folder / "docs/coming-from/torchserve.md"
    (weights / "weights").mkdir()
    with warnings.catch_warnings(action="ignore"):  # nobody is to write TorchScript any more
        net = torch.jit.script(torch.nn.Identity())
        torch.jit.save(net, weights / "weights" / "net.pt")
    samples = folder / "examples" / "digits" / "samples"
    samples.mkdir(parents=True)
    for path in (samples / "3.png", folder / "3.png"):
        path.write_bytes(PICTURE.read_bytes())
    np.save(folder / "array.npy", np.zeros((2, 2), np.float32))


def workers_of(page: str, blocks: list[Block]) -> list[str]:
    """The commands of a page that start workers; a script that none starts has one, too."""
    commands = [line for block in blocks if block.language == "sh" for line in block.commands]
    workers = [line for line in commands if line.startswith("millstream worker")]
    started = {words_of(line)[2].partition(":")[0] for line in workers}
    scripts = {block.file for block in blocks if block.language == "python" and block.file}
    assert started <= scripts, f"{page}: starts {started - scripts}, which it does not show"
    return [*workers, *(f"millstream worker {script}" for script in sorted(scripts - started))]


def pipelines_of(blocks: list[Block]) -> list[str]:
    """Those of a page."""
    files = [tomllib.loads(block.text) for block in blocks if block.file.endswith(".toml")]
    return [name for file in files for name in file["pipelines"]]


def spawn_worker(
    mill: Deployment, command: str, folder: Path, pipelines: Sequence[str] = ()
) -> None:
    """As it is written, in the folder of its page; for its own pipeline, where that is one, since
    other pages may have stages of the same name."""
    words = words_of(command)
    assert is_server(command), command
    env = {"MILLSTREAM_PIPELINE": pipelines[0]} if len(pipelines) == 1 else {}
    mill.spawn([*mill.command, *words[1:]], name=f"worker {words[2]}", cwd=folder, env=env)
