"""The wheel: what is in it, and that it works from a folder where nothing else of ours is."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream import __version__
from tests.system.deployment import Deployment
from tests.system.readme import ROOT

pytestmark = pytest.mark.system

TEMPLATES = "millstream/new/templates"
PACKAGES = ("broker", "gateway", "millstream", "workers")
WHERE = """
import sys

import millstream


class Where(millstream.Worker):
    def forward(self, batch):
        return [sorted({sys.modules[name].__file__ for name in batch[0]})]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with what is installed: nothing is downloaded."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True, timeout=50)
    (wheel,) = folder.iterdir()
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel unpacked as pip does it."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--target", str(folder)]
    subprocess.run([*pip, *options, str(wheel)], check=True, timeout=50)
    return folder


@pytest.fixture
def mill(installed: Path) -> Iterator[Deployment]:
    """A deployment that runs what is installed there."""
    with Deployment(
        pipelines='[pipelines.where]\nchain = ["where"]\n',
        command=(sys.executable, "-m", "millstream"),
        env={"PYTHONPATH": str(installed)},
    ) as mill:
        yield mill


def test_it_has_the_four_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    about = f"millstream-{__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {*PACKAGES, about}
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
    # What `millstream new` makes, and nothing else that is no code of ours.
    made = {str(path.relative_to(ROOT)) for path in files_of(ROOT / TEMPLATES)}
    assert {name for name in names if name.startswith(TEMPLATES)} == made
    assert {name for name in names if name.endswith(".toml")} <= made
    modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert {str(path.relative_to(ROOT)) for path in modules} <= set(names)
    assert f"{about}/licenses/LICENSE" in names


def files_of(folder: Path) -> list[Path]:
    return [
        path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]


def test_it_runs_by_itself(mill: Deployment, installed: Path) -> None:
    assert mill.run("--version").stdout == f"millstream {__version__}\n"
    script = mill.write("where.py", WHERE)
    mill.broker()
    mill.worker(script)
    mill.gateway()
    mill.wait_ready()
    with mill.client() as client:
        files = client.post_json("/pipelines/where", ["millstream", "workers", "broker"]).json()
    folder = os.path.realpath(installed)
    assert files == [f"{folder}/{name}/__init__.py" for name in ("broker", "millstream", "workers")]
