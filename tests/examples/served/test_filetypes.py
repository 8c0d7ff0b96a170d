"""File types: what Magika says of files of all sizes, and of the page's own example."""

import io
import json
import zipfile

import pytest

from tests.examples.served.examples import needs, run_shown
from tests.system.client import Client
from tests.system.deployment import Deployment
from tests.system.readme import ROOT

pytestmark = [pytest.mark.system, needs("filetypes")]
PATH = "/pipelines/filetypes"


def zipped() -> bytes:
    """Larger than what is looked at, and than what travels inside of messages."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md"):
            archive.write(ROOT / name, name)
    return body.getvalue()


@pytest.mark.parametrize(
    ("body", "content_type", "label"),
    [
        pytest.param((ROOT / "millstream/__init__.py").read_bytes(), "", "python", id="python"),
        pytest.param((ROOT / "docs/images/ui-wide-dark.png").read_bytes(), "", "png", id="png"),
        pytest.param(zipped(), "", "zip", id="zip"),
        pytest.param(b'{"a": [1, 2], "b": "c"}\n' * 3, "application/json", "jsonl", id="jsonl"),
        pytest.param(b"", "", "empty", id="nothing"),
    ],
)
def test_a_file_is_told_by_what_is_in_it(
    client: Client, body: bytes, content_type: str, label: str
) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    answer = client.post(PATH, body, headers)
    assert answer.status == 200, answer.body
    assert answer.json()["label"] == label


def test_what_the_page_shows(mill: Deployment) -> None:
    for ran in run_shown(mill, "filetypes"):
        assert json.loads(ran.written) == json.loads(ran.shown)
