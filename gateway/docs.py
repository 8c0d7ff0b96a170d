"""The page `/docs`: Swagger UI over `/openapi.json`, with every byte of it from this gateway.

Its files come with the package swagger-ui-py, of which nothing else is used, nor imported: of those
on the index it is the one that keeps up with releases of Swagger UI, and OpenAPI 3.1 needs a recent
one. Without it there is no page, and the answer says how to get it.
"""

from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "swagger_ui"
MISSING = (
    "Swagger UI is not installed here: pip install 'millstream[docs]'. "
    "The document itself is at /openapi.json"
)
HEADERS = (
    "Content-Security-Policy: default-src 'self'; img-src 'self' data: blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
)
"""Images may come from within the page, too: Swagger UI has its icons there, and shows answers."""

_HTML = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Millstream</title>
<link rel="icon" href="%(base)bfavicon-32x32.png">
<link rel="stylesheet" href="%(base)bswagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="%(base)bswagger-ui-bundle.js"></script>
<script src="%(base)bstart.js"></script>
</body>
</html>
"""
_START = b"""SwaggerUIBundle({
  url: "%b",
  dom_id: "#swagger-ui",
  validatorUrl: null,
  displayRequestDuration: true,
});
"""
_TYPES = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}


@lru_cache(maxsize=8)  # clients make up names without end
def read(
    name: str, document: str = "openapi.json", base: str = "docs/"
) -> tuple[str, bytes] | None:
    """The content type and the bytes of a file of the page, "" being the page itself.

    `document` is what the page shows, and `base` is before its files' names, both as seen from it.
    None where there is no such file, and for all of them where the package is missing.
    """
    folder = _folder()
    if folder is None:
        return None
    if not name:
        return "text/html; charset=utf-8", _HTML % {b"base": base.encode()}
    if name == "start.js":
        return "text/javascript", _START % document.encode()
    kind = _TYPES.get(name)
    return None if kind is None else (kind, (folder / name).read_bytes())


def is_installed() -> bool:
    """Whether there is a page."""
    return _folder() is not None


@cache
def _folder() -> Path | None:
    spec = find_spec(PACKAGE)  # which does not import it
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "static"
    return folder if all((folder / name).is_file() for name in _TYPES) else None
