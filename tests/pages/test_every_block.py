"""Each block of the README and of docs/ is run by a test, or is of a kind that cannot be."""

from tests.pages.blocks import DOCS, ROOT, every_block
from tests.pages.ledger import ELSEWHERE, HOSTS, NOT_RUN, PYTHON, TOOLS, TRAFFIC, runner
from tests.pages.snippets import SNIPPETS


def test_each_block_has_what_runs_it() -> None:
    lacking = [block.where for block in every_block() if not runner(block)]
    assert not lacking, "nothing runs these: see tests/pages/ledger.py"


def test_what_the_ledger_names_is_there() -> None:
    texts = [(block.page, block.text) for block in every_block()]
    shown = [(each.page, each.words) for each in SNIPPETS]
    for page, words in [*ELSEWHERE, *NOT_RUN, *PYTHON, *shown]:
        is_there = any(page == at and words in text for at, text in texts)
        assert is_there, (page, words)
    for test in ELSEWHERE.values():
        assert (ROOT / test).is_file(), test
    for page in [*TRAFFIC, *TOOLS, *HOSTS]:
        assert any(page == at for at, _ in texts), page


def test_no_code_hides_in_an_indent() -> None:
    """A block without a fence has no language, and would be run by nobody."""
    for page in DOCS.rglob("*.md"):
        is_code, before = False, ""
        for line in page.read_text().splitlines():
            is_code ^= line.startswith("```")
            hidden = line.startswith("    ") and not before.strip() and not is_code
            assert not hidden, f"{page.relative_to(ROOT)}: {line}"
            before = line
