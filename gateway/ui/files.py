"""The files of the page `/ui`: its own, and the chart library's, which builds bring along.

They hold nothing of the deployment, so that anybody may have them: whoever may see what the page
shows is asked where that comes from (`feed.py`).
"""

from functools import cache
from pathlib import Path

HEADERS = (
    "Content-Security-Policy: default-src 'self'; "
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-cache\r\n"
)
"""Scripts and styles come from files of this gateway alone."""

_LIBRARY = ("uPlot.iife.min.js", "uPlot.min.css")
_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def read(name: str) -> tuple[str, bytes] | None:
    """The content type and the bytes of a file of the page, "" being the page itself; None where
    there is no such file. Of the chart library there is nothing where it was not installed.
    """
    file = _files().get(name or "index.html")
    return (_TYPES[Path(name).suffix], b"") if file is None and name in _LIBRARY else file


@cache
def _files() -> dict[str, tuple[str, bytes]]:
    """All of them by their names: some 150 KB."""
    return {
        path.name: (_TYPES[path.suffix], path.read_bytes())
        for path in sorted(_FOLDER.rglob("*"))
        if path.suffix in _TYPES
    }
