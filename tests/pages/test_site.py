"""The site as a reader sees it, in a real browser: nothing is missing, cut off, or from elsewhere;
and what the build finds wrong.
"""

import asyncio
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream
from docs.site.__main__ import build
from docs.site.links import problems
from docs.site.pictures import IMAGES, PICTURES
from docs.site.reference import pages, public_names
from tests.edges import chromium
from tests.edges.chromium import Chromium
from tests.pages.blocks import ROOT

AXE = ROOT / ".venv/npm/node_modules/axe-core/axe.min.js"
PAGES = [
    "index.html",
    "concepts/life-of-an-item.html",
    "coming-from/litserve.html",
    "reference/plug-ins.html",
    "reference/commands.html",
]
_AUDIT = """axe.run({
    rules: {'scrollable-region-focusable': {enabled: matchMedia('(hover)').matches}}
}).then(({violations}) => violations
    .filter(({impact}) => ['serious', 'critical'].includes(impact))
    .map(({id, impact, nodes}) => ({id, impact, nodes: nodes.map((n) => n.html)})))"""
"""Where there is no pointer, and so no keyboard, the theme lets code be scrolled by touch alone."""
_DRAWN = """new Promise((resolve) => {
    const drawn = () => requestAnimationFrame(() => requestAnimationFrame(() => resolve(true)));
    if (document.readyState === 'complete') drawn(); else window.addEventListener('load', drawn);
})"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Says nothing of requests."""

    def log_message(self, format: str, *args: Any) -> None:
        """Called for each."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built strictly, once."""
    work = tmp_path_factory.mktemp("docs")
    assert build(work) == []
    return work / "site"


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    """Where the site is served."""
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium")
@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed")
@pytest.mark.timeout(300)  # a browser has many processes, and is last beside as many others
def test_in_a_browser(url: str) -> None:
    asyncio.run(look_at_pages(url))


async def look_at_pages(url: str) -> None:
    async with Chromium() as browser:
        for number, page in enumerate(PAGES):
            width, scheme = (1280, "dark") if number % 2 else (390, "light")
            for each in ((width, scheme), (1670 - width, "light" if scheme == "dark" else "dark")):
                await look_at(browser, f"{url}/{page}", *each)
        assert browser.complaints == []
        hosts = {each.split("/")[2] for each in browser.requested if each.startswith("http")}
        assert hosts == {url.split("/")[2]}


async def look_at(browser: Chromium, url: str, width: int, scheme: str) -> None:
    await browser.look(width=width, height=900, scheme=scheme)
    await browser.open(f"{url}?{width}-{scheme}")  # an address of its own, so that it is anew
    await browser.wait_for(
        f"location.search === '?{width}-{scheme}' && document.querySelector('.md-code__button"
        ", .doc-heading, table')"
    )
    await browser.run(_DRAWN)
    colours = await browser.run("document.body.dataset.mdColorScheme")
    assert colours == ("slate" if scheme == "dark" else "default"), url
    await browser.send("Runtime.evaluate", expression=AXE.read_text())
    assert await browser.run(_AUDIT) == [], f"{url} {width} {scheme}"
    assert await browser.run("document.documentElement.scrollWidth") <= width, url


# ------------------------------------------------------------------ what the build finds


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    head = "<html><body><h2 id='here'>h</h2>"
    (tmp_path / "a.html").write_text(
        f"{head}<a href='b.html#here'>fine</a><a href='#here'>fine</a>"
        "<a href='https://example.org/x#y'>fine</a><a href='mailto:a@example.org'>fine</a>"
        "<a href='b.html#gone'>1</a><a href='c.html'>2</a><a href='http://'>3</a>"
        "<script src='https://example.org/x.js'></script><img src='gone.png'>"
    )
    (tmp_path / "b.html").write_text(f"{head}<a href='a.html#here'>fine</a>")
    assert sorted(problems(tmp_path)) == [
        "a.html: b.html#gone: no such anchor",
        "a.html: c.html: no such page",
        "a.html: gone.png: no such page",
        "a.html: http://: is no URL",
        "a.html: https://example.org/x.js: is loaded from another site",
    ]


def test_pictures_are_as_they_are_drawn() -> None:
    """After a change: python -m docs.site.pictures."""
    for name, draw in PICTURES.items():
        assert (IMAGES / f"{name}.svg").read_text() == draw().svg(), name


def test_the_reference_has_what_is_public() -> None:
    named = {name.rpartition(".")[2] for names in public_names().values() for name in names}
    assert {name for name in millstream.__all__ if not name.startswith("_")} <= named
    made = pages()
    for name in ("max_batch_size", "timeout_s", "agreement", "rtol"):
        assert f"| `{name}` |" in made["reference/pipeline-file.md"]
    assert "| `overloaded` | 503 | yes |" in made["reference/errors.md"]
    assert "payload_lost" not in made["reference/errors.md"]
