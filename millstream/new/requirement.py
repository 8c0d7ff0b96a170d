"""The line of a requirements file that brings the Millstream which runs here."""

import json
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from millstream import __version__

_ROOT = Path(__file__).resolve().parents[2]


def requirement() -> str:
    """As it was installed: from a folder, from an address, or else its version from the index."""
    try:
        told = metadata.distribution("millstream").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        # Somebody runs it from its folder.
        return f"-e {_ROOT}" if (_ROOT / "pyproject.toml").exists() else _pinned()
    return line_of(json.loads(told)) if told else _pinned()


def line_of(direct_url: dict[str, Any]) -> str:
    """The same for what pip has noted of an installation (PEP 610)."""
    url: str = direct_url["url"]
    if "dir_info" in direct_url:
        path = unquote(urlsplit(url).path)
        return f"-e {path}" if direct_url["dir_info"].get("editable") else path
    if "vcs_info" in direct_url:
        vcs = direct_url["vcs_info"]
        return f"millstream @ {vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"millstream @ {url}"


def _pinned() -> str:
    return f"millstream=={__version__}"
