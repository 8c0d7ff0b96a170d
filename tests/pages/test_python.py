"""Python of pages that is no plug-in to be served: it is run with what the page takes for given."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream
from tests.pages.blocks import ROOT, Block, blocks_of, every_block
from tests.pages.ledger import PYTHON
from tests.pages.shell import Shell


def run(words: str, page: str, given: dict[str, Any]) -> dict[str, Any]:
    """The block's names, after it was run with these."""
    names = dict(given)
    exec(compile(block(words, page).text, page, "exec"), names)
    return names


def block(words: str, page: str) -> Block:
    found = [each for each in blocks_of(ROOT / page) if each.language == "python"]
    (one,) = [each for each in found if words in each.text]
    return one


@pytest.mark.system
@pytest.mark.timeout(200)
def test_the_client(press: Shell) -> None:
    said = press.python(block("client.stream", "docs/client.md").text)
    assert said == "hello\n"


def test_a_reference_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("models/digits/3").mkdir(parents=True)
    random = np.random.default_rng(0)
    given = {"images": random.random((1000, 8, 8)), "scores": random.random(1000)}
    run("write_reference", "docs/drift.md", {"millstream": millstream, **given})
    assert Path("models/digits/3/reference.json").exists()


def test_what_numpy_refuses() -> None:
    given = {"np": np, "batch": [np.zeros(2), np.zeros(2, np.int64)]}
    with pytest.raises(TypeError, match="Cannot cast"):
        run("np.stack", "docs/what-happens-when.md", given)
    run("np.stack", "docs/what-happens-when.md", {"np": np, "batch": [np.zeros(2)] * 2})


def test_torch_in_a_plug_in() -> None:
    torch = pytest.importorskip("torch")

    def load_net(_folder: Path) -> Any:
        return torch.nn.Linear(4, 2)

    batch = [np.zeros(4, np.float32)] * 3
    plain, overlapping = (
        each for each in every_block() if each.page == "docs/torch.md" and "Worker" in each.text
    )
    names: dict[str, Any] = {"load_net": load_net}
    exec(compile(plain.text, plain.where, "exec"), names)
    worker = names["Infer"]()
    worker.setup()
    assert tuple(worker.forward(batch).shape) == (3, 2)
    exec(compile(overlapping.text, overlapping.where, "exec"), names)
    worker = names["Infer"]()
    worker.setup()
    assert tuple(asyncio.run(worker.forward(batch)).shape) == (3, 2)
    assert len(PYTHON) == 4, "what stands there is run here"
