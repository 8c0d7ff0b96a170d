"""What a project may be called, and where it may be made. Pure, but for a look at the disk."""

import keyword
from pathlib import Path

from broker.config import NAME_IS, is_name
from millstream.cli.errors import CommandError

TAKEN = ("broker", "examples", "gateway", "millstream", "workers")
"""Packages that are imported by these names, or are known by them to users."""


def folder_for(name: str) -> Path:
    """The folder of a new project, which is not there, or is empty. Raises CommandError."""
    folder = Path(name)
    own = folder.resolve().name
    if not is_name(own) or own.startswith((".", "-")):
        raise CommandError(f"{name!r} is no name of a project: it is {NAME_IS}, a letter first")
    if own.lower() in TAKEN:
        raise CommandError(f"{own}: Millstream itself has a package of that name; choose another")
    if keyword.iskeyword(own):
        raise CommandError(f"{own} is a word of Python; choose another name")
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{name}: there is a file of that name")
    if folder.is_dir() and any(folder.iterdir()):
        raise CommandError(f"{name}: there is a folder of that name, and it is not empty")
    if not folder.resolve().parent.is_dir():
        raise CommandError(f"{name}: there is no folder {folder.parent}")
    return folder
