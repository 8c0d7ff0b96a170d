"""Writes the files of a new project, all of them or none."""

import os
import shutil
import tempfile
from pathlib import Path

from millstream.cli.errors import CommandError

TEMPLATES = Path(__file__).parent / "templates"
PROJECT, ONE_FILE = "project", "one_file"
_DOTTED = {"env": ".env", "gitignore": ".gitignore"}
"""Files whose names begin with a dot in a project, where tools would take them for their own."""


def make(folder: Path, template: str, values: dict[str, str]) -> list[str]:
    """The files of a template, `{{key}}` in them replaced, in a folder that is not there or empty;
    their names. Raises CommandError where it cannot be written.
    """
    try:
        parent = folder.resolve().parent
        with tempfile.TemporaryDirectory(prefix=f".{folder.resolve().name}-", dir=parent) as made:
            names = _fill(TEMPLATES / template, Path(made), values)
            _put(Path(made), folder)
    except OSError as error:
        raise CommandError(f"{folder}: cannot be made: {error.strerror}", code=1) from None
    return names


def _fill(template: Path, folder: Path, values: dict[str, str]) -> list[str]:
    names = []
    for source in sorted(template.rglob("*")):
        if source.is_dir() or "__pycache__" in source.parts:
            continue
        inner = source.relative_to(template)
        target = folder / inner.with_name(_DOTTED.get(inner.name, inner.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text()
        for key, value in values.items():
            text = text.replace(f"{{{{{key}}}}}", value)
        target.write_text(text)
        names.append(str(target.relative_to(folder)))
    return names


def _put(made: Path, folder: Path) -> None:
    """In one step for a folder that is new; one that is there stays the same folder."""
    if folder.is_dir():
        for each in made.iterdir():
            shutil.move(each, folder)
        return
    inner = made / "project"
    inner.mkdir()
    for each in list(made.iterdir()):
        if each != inner:
            each.rename(inner / each.name)
    os.rename(inner, folder)
