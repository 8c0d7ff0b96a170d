"""Writes the files of an export, and leaves alone what somebody has edited."""

import getpass
import os
import sys
from pathlib import Path

from millstream.local.export import Site, export_files, is_untouched
from millstream.local.mistakes import Mistake, shown_path
from millstream.local.plan import Plan


def write_export(plan: Plan, folder: str, *, force: bool) -> list[str]:
    """The paths of what was written. Raises Mistake, and has written nothing then, where files
    are there that are not as an export left them, unless `force` says to replace them.
    """
    out = Path(folder).resolve()
    files = {out / path: text for path, text in export_files(plan, _site(out)).items()}
    if not force:
        edited = [path for path in files if _is_edited(path)]
        if edited:
            names = ", ".join(shown_path(str(path)) for path in edited)
            raise Mistake(
                f"{names}: not replaced, since there is something else in there than an export "
                "has written; --force replaces it, --out DIR writes elsewhere"
            )
    written = []
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, text)
        except OSError as error:
            raise Mistake(f"{shown_path(str(path))}: {error.strerror}") from None
        written.append(shown_path(str(path)))
    return written


def _write(path: Path, text: str) -> None:
    # .env may hold a token.
    mode = 0o600 if path.name == ".env" else 0o666
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        file.write(text)


def _is_edited(path: Path) -> bool:
    try:
        return not is_untouched(path.read_text())
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def _site(out: Path) -> Site:
    program = Path(sys.executable).with_name("millstream")
    command = (str(program),) if program.exists() else (sys.executable, "-m", "millstream")
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = ""
    return Site(str(out), command, "" if user == "root" else user)
