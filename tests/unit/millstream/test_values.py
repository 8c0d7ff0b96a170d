"""Values of the command line, taken apart."""

from pathlib import Path

import pytest

from millstream.cli.amounts import arena
from millstream.cli.values import Script, script


@pytest.mark.parametrize(
    ("text", "class_name"), [("a/b.py:Infer", "Infer"), ("a/b.py", ""), ("a:b/c.py", "")]
)
def test_scripts_may_name_a_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, class_name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = text.removesuffix(f":{class_name}") if class_name else text
    Path(path).parent.mkdir()
    Path(path).touch()
    assert script(text) == Script(path, class_name)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0", 0), ("1MiB", 1 << 20), ("1048576", 1 << 20), ("512MiB", 512 << 20), ("2G", 2 << 30)],
)
def test_sizes_of_an_arena(text: str, size_bytes: int) -> None:
    assert arena(text) == size_bytes
