"""What runs each block of the documentation. A block that has no place here fails a test.

- Blocks of a story are run by `test_stories.py`; plug-ins of which a page shows a part stand in
  `snippets.py`, and other Python in `test_python.py`.
- `SESSIONS` are pages whose commands `test_commands.py` runs against a deployment.
- TOML is read by the loader of pipeline files, and other files by a parser of their kind, whose
  commands must have the options that they are given.
- `ELSEWHERE` names the tests that run what needs more than that.
- `NOT_RUN` is what no test can run, and why.
"""

from tests.pages.blocks import Block, stories
from tests.pages.snippets import SNIPPETS

OUTPUT = {"text", "mermaid"}
"""Languages of what is shown, and not run."""

PARSED = {"toml", "yaml", "ini", "procfile", "protobuf"}

TRAFFIC = [
    "docs/patterns/hot-swap.md",
    "docs/patterns/canary.md",
    "docs/patterns/rollback.md",
    "docs/patterns/ab.md",
    "docs/patterns/shadow.md",
    "docs/shadow.md",
    "docs/traffic.md",
    "docs/models.md",
]
"""Whose commands are run, in this order, where `digits` has versions."""

TOOLS = [
    "docs/bench.md",
    "docs/advise.md",
    "docs/status.md",
    "docs/top.md",
    "docs/client.md",
    "docs/http.md",
    "docs/start/install.md",
]
"""Whose commands are run, in this order, beside the stories."""

HOSTS = ["docs/patterns/scaling-out.md", "docs/operations/hosts.md"]
"""Whose commands are run where the broker is at a port, with keys."""

PYTHON = {
    ("docs/client.md", "client.stream"),
    ("docs/drift.md", "write_reference"),
    ("docs/torch.md", "torch.inference_mode"),
    ("docs/what-happens-when.md", "np.stack"),
}

ELSEWHERE = {
    ("README.md", ""): "tests/system/test_readme.py",
    ("docs/protocols.md", "tritonclient"): "tests/oip/test_docs.py",
    ("docs/protocols.md", "/v2/models"): "tests/oip/test_docs.py",
    ("docs/protocols.md", "model_name"): "tests/oip/test_docs.py",
    ("docs/protocols.md", "tensors.toml"): "tests/oip/test_docs.py",
    ("docs/protocols.md", "class Sizes"): "tests/tfs/test_docs.py",
    ("docs/protocols.md", "/v1/models"): "tests/tfs/test_docs.py",
    ("docs/protocols.md", '"results"'): "tests/tfs/test_docs.py",
    ("docs/protocols.md", '"ready"'): "tests/tfs/test_docs.py",
    ("docs/serve.md", ""): "tests/system/test_serve_docs.py",
    ("docs/testing.md", ""): "tests/system/test_docs_of_tools.py",
    ("docs/check.md", ""): "tests/system/test_docs_of_tools.py",
    ("docs/new.md", ""): "tests/system/test_docs_of_tools.py",
    ("docs/coming-from/mosec.md", "millstream mosec"): "tests/mosec/test_scripts.py",
    ("docs/profile.md", "millstream profile"): "tests/system/test_tools.py",
    ("docs/traces.md", "--trace-sample"): "tests/system/test_traces.py",
    ("docs/ui.md", "/admin/workers"): "tests/ui/test_page.py",
}
"""By page and words ("" for all of its blocks): the file with the test."""

NOT_RUN = {
    ("docs/shared-memory.md", "docker run"): "needs Docker",
}


def runner(block: Block) -> str:
    """What runs this block; "" where nothing does."""
    for table in (ELSEWHERE, NOT_RUN):
        for (page, words), what in table.items():
            if block.page == page and words in block.text:
                return what
    if block.language in OUTPUT or not (block.language or block.is_like_commands):
        return "output"
    if block.language in PARSED or block.is_foreign:
        return "test_files.py"
    if block.page in stories():
        return "test_stories.py"
    return _command(block) or _python(block)


def _command(block: Block) -> str:
    are_run = block.language in {"sh", "console"} and block.page in {*TRAFFIC, *TOOLS, *HOSTS}
    return "test_commands.py" if are_run else ""


def _python(block: Block) -> str:
    shown = {(each.page, each.words) for each in SNIPPETS}
    for names, what in ((shown, "test_stories.py"), (PYTHON, "test_python.py")):
        if any(block.page == page and words in block.text for page, words in names):
            return what
    return ""
