"""Copies the pages into the form that the generator takes, and writes its configuration.

- Links to files outside of `docs/` lead to the page of the site that stands for that file.
- SVG pictures are put into the page, so that they take its colours, light or dark; on a forge they
  take those that the reader's system prefers.
- Diagrams of states, which forges draw, become tables: nothing is drawn by a script from elsewhere.
"""

import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docs.site import commands, reference

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = DOCS / "site"

_LINK = re.compile(r"(?<=\]\()(?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^(?P<fence>```+).*?^(?P=fence)$", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"^!\[(?P<words>[^\]]*)\]\((?P<path>[^)\s]+\.svg)\)$", re.MULTILINE)
_PHOTO = re.compile(r"\]\((?P<path>[^)\s:]+\.png)\)")
_STATES = re.compile(r"^```mermaid\nstateDiagram-v2\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class StagingError(Exception):
    """The pages cannot become a site; the message says which and why."""


def stage(work: Path) -> None:
    """Write `docs/` and `mkdocs.yml` into this folder. Raises StagingError."""
    settings = tomllib.loads((SITE / "site.toml").read_text())
    sources: dict[str, str] = settings["sources"]
    for page, text in pages(settings["copied"]).items():
        write(work / "docs" / page, _staged(page, text, settings["copied"], sources))
    for page, text in {**reference.pages(), **commands.pages()}.items():
        write(work / "docs" / page, text)
    for picture in DOCS.rglob("*.png"):
        copy(picture, work / "docs" / picture.relative_to(DOCS))
    for source in settings["copied"]:
        for path in _PHOTO.findall((ROOT / source).read_text()):
            picture = (ROOT / source).parent / path
            if not picture.is_relative_to(DOCS):
                copy(picture, work / "docs" / picture.resolve().relative_to(ROOT))
    shutil.copytree(SITE / "theme", work / "docs" / "theme")
    nav = settings["nav"]
    _check_nav(nav, work / "docs")
    config = {**settings["zensical"], "nav": nav, "docs_dir": "docs", "site_dir": "site"}
    config["plugins"] = [{"search": {}}, {"mkdocstrings": {"handlers": {"python": {
        "paths": [os.fspath(ROOT)], "options": settings["docstrings"]}}}}]  # fmt: skip
    write(work / "mkdocs.yml", json.dumps(config, indent=1))  # which is YAML, too


def pages(copied: Mapping[str, str]) -> dict[str, str]:
    """The text of each page that is written by hand, by its path in the site. `copied`: those that
    stand elsewhere in the repository, by path there."""
    found = {os.fspath(path.relative_to(DOCS)): path for path in sorted(DOCS.rglob("*.md"))}
    found |= {page: ROOT / source for source, page in copied.items() if (ROOT / source).exists()}
    return {page: path.read_text() for page, path in found.items()}


def write(path: Path, text: str) -> None:
    """A file, and the folders that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def copy(source: Path, path: Path) -> None:
    """Likewise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, path)


# ------------------------------------------------------------------ one page


def _staged(page: str, text: str, copied: Mapping[str, str], sources: Mapping[str, str]) -> str:
    origin = {there: here for here, there in copied.items()}.get(page, f"docs/{page}")
    text = _STATES.sub(lambda found: _table_of_states(found["text"]), text)
    text = _PICTURE.sub(lambda found: _inlined(origin, found["path"], found["words"]), text)
    parts, end = [], 0
    for fence in _FENCE.finditer(text):  # what looks like a link in code is none
        parts += [_relinked(text[end : fence.start()], page, origin, copied, sources), fence[0]]
        end = fence.end()
    return "".join([*parts, _relinked(text[end:], page, origin, copied, sources)])


def _relinked(
    text: str, page: str, origin: str, copied: Mapping[str, str], sources: Mapping[str, str]
) -> str:
    """With each link to a file of the repository as one to a page of the site."""

    def replace(found: re.Match[str]) -> str:
        path = os.path.normpath(Path(origin).parent / found["path"])
        anchor = found["anchor"] or ""
        if path in copied:
            target = copied[path]
        elif f"{path}/README.md" in copied:
            target = copied[f"{path}/README.md"]
        elif path.endswith(".png") and not path.startswith("docs/"):
            target = path  # copied by `stage`
        elif path in sources:
            target, _, own = sources[path].partition("#")
            anchor = f"#{own}" if own else anchor
        elif path.startswith("docs/"):
            target = path.removeprefix("docs/")
        else:
            raise StagingError(f"{origin}: {found['path']}: [sources] of site.toml has no page")
        return os.path.relpath(target, Path(page).parent) + anchor

    return _LINK.sub(replace, text)


def _inlined(origin: str, path: str, words: str) -> str:
    """The picture itself, in the page's own colours, without a blank line, which would end it."""
    text = (ROOT / Path(origin).parent / path).read_text()
    svg = re.sub(r"<style>.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r"\n\s*", "\n", svg).strip()
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{words}" ', 1)
    return f'<div class="picture">{svg}</div>'


def _table_of_states(text: str) -> str:
    rows = re.findall(r"^\s*(\w+) --> (\w+): (.*)$", text, re.MULTILINE)
    lines = [f"| {start} | {end} | {words} |" for start, end, words in rows]
    return "\n".join(["| from | to | on |", "|---|---|---|", *lines])


# ------------------------------------------------------------------ the navigation


def _check_nav(nav: list[Any], docs: Path) -> None:
    """Each page can be found, and is there."""
    named = set(_targets(nav))
    for target in sorted(named):
        if not (docs / target).exists():
            raise StagingError(f"site.toml: nav: there is no page {target}")
    for page in sorted(docs.rglob("*.md")):
        if os.fspath(page.relative_to(docs)) not in named:
            raise StagingError(f"site.toml: nav: does not name {page.relative_to(docs)}")


def _targets(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            yield from _targets(target) if isinstance(target, list) else [target]
