"""Whether each link of a built site leads somewhere: to a file of the site, and to an anchor on it.

Links to other sites are looked at and never followed, and nothing may be loaded from one.
"""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
_NAMED = {"canonical", "sitemap"}
"""Relations of a <link> that load nothing."""


class Page(HTMLParser):
    """What a page refers to, and what others may refer to on it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each tag."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        source = given.get(_LOADED.get(tag, ""))
        if source is not None and given.get("rel") not in _NAMED:
            self.loaded.append(source)


def problems(site: Path) -> list[str]:
    """A line for each link that is wrong."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    return [
        f"{path.relative_to(site)}: {url}: {wrong}"
        for path, page in pages.items()
        for url, wrong in _problems_of(path, page, pages, site)
    ]


def _problems_of(
    path: Path, page: Page, pages: dict[Path, Page], site: Path
) -> Iterator[tuple[str, str]]:
    for url in page.loaded:
        if urlsplit(url).scheme not in {"", "data"} or urlsplit(url).netloc:
            yield url, "is loaded from another site"
    for url in [*page.links, *page.loaded]:
        wrong = _problem(path, url, pages, site)
        if wrong:
            yield url, wrong


def _problem(path: Path, url: str, pages: dict[Path, Page], site: Path) -> str:
    parts = urlsplit(url)
    if parts.scheme in {"http", "https"}:
        return "" if parts.hostname and " " not in url else "is no URL"
    if parts.scheme or parts.netloc:
        return "" if parts.scheme in {"data", "mailto"} else "is no link of a page"
    # The page for what is not found may be shown for any path, so its own links begin at the top.
    start = site if parts.path.startswith("/") else path.parent
    target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "no such page"
    anchor = unquote(parts.fragment)
    if target in pages and anchor not in pages[target].anchors and not anchor.startswith("__"):
        return "no such anchor"
    return ""
