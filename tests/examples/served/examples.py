"""The examples that are served in one deployment, as their own files describe them."""

import importlib.util
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.system.deployment import Deployment
from tests.system.readme import ROOT, URL, block_with, blocks


class Example(NamedTuple):
    """One folder below `examples`."""

    name: str
    pipeline: str
    test: str
    """Of the module `test_….py` that asks for it."""
    packages: tuple[str, ...] = ()
    """That it needs, by the names that are imported."""
    stages: tuple[str, ...] | None = None
    """The workers of its Procfile that are started here; None: all."""
    version: str = ""
    """Of a pipeline that several share."""
    makes: str = ""
    """What its README's commands make in the folder `model`, if anything."""

    @property
    def folder(self) -> Path:
        """Where it is."""
        return ROOT / "examples" / self.name

    @property
    def home(self) -> Path:
        """Where its Procfile is, and its commands are run."""
        return ROOT if self.name == "digits" else self.folder

    @property
    def readme(self) -> Path:
        """Its page."""
        return self.folder / "README.md"

    def _processes(self) -> dict[str, str]:
        lines = (self.home / "Procfile").read_text().splitlines()
        return dict(line.split(": ", 1) for line in lines)

    @property
    def pipeline_files(self) -> list[Path]:
        """Of the broker in its Procfile."""
        words = self._processes()["broker"].split()[3:]
        return [(self.home / word).resolve() for word in words]

    def workers(self) -> list[tuple[str, str]]:
        """Stage and command of each worker in its Procfile that is started here."""
        return [
            (name, command)
            for name, command in self._processes().items()
            if " worker " in command and (self.stages is None or name in self.stages)
        ]

    def is_made(self) -> bool:
        """Whether there is what it needs beside its packages, made since its scripts changed."""
        made = self.folder / "model" / ".made"
        newest = max(path.stat().st_mtime for path in self.folder.glob("*.py"))
        return not self.makes or (made.exists() and made.stat().st_mtime > newest)

    def script_to_make(self) -> Path:
        """What its README says to run before `honcho start`."""
        lines = block_with("sh", "honcho start", self.readme).lines
        (script,) = [line.removeprefix("python ") for line in lines if line.startswith("python ")]
        return self.folder / script


EXAMPLES = [
    # What is made first takes longest.
    Example(
        "tensorflow",
        "digits",
        "digits_elsewhere",
        ("tensorflow", "torch"),
        ("infer",),
        "tensorflow",
        "digits",
    ),
    Example(
        "onnx",
        "digits",
        "digits_elsewhere",
        ("onnxruntime", "onnxscript", "torch"),
        ("infer",),
        "onnx",
        "digits.onnx",
    ),
    Example(
        "diffusion",
        "diffusion",
        "diffusion",
        ("diffusers", "transformers", "torch"),
        makes="model_index.json",
    ),
    Example(
        "embeddings",
        "embeddings",
        "embeddings",
        ("transformers", "torch"),
        makes="model.safetensors",
    ),
    Example("jax", "digits", "digits_elsewhere", ("jax", "torch"), ("infer",), "jax", "digits.npz"),
    Example("digits", "digits", "digits_elsewhere", stages=("preprocess", "postprocess")),
    Example("filetypes", "filetypes", "filetypes", ("magika",)),
    Example("http", "orders", "http"),
    Example("llm", "llm", "llm", ("transformers", "torch"), makes="model.safetensors"),
    Example("ocr", "ocr", "ocr", ("rapidocr", "onnxruntime")),
    Example("sklearn", "iris", "sklearn", ("sklearn",), makes="iris.joblib"),
    Example("voice", "voice", "voice", ("silero_vad", "onnxruntime")),
]


def is_installed(example: Example) -> bool:
    """Whether there is all that it needs."""
    return all(importlib.util.find_spec(package) for package in example.packages)


def needs(name: str) -> pytest.MarkDecorator:
    """Skips a module whose example lacks a package."""
    (example,) = [each for each in EXAMPLES if each.name == name]
    missing = [each for each in example.packages if not importlib.util.find_spec(each)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


class Shown(NamedTuple):
    """A command on a page, what it writes here, and what the page says it writes."""

    command: str
    written: str
    shown: str


def run_shown(mill: Deployment, name: str) -> list[Shown]:
    """Run each `$ curl …` of an example's page; only the port differs from what is shown."""
    (example,) = [each for each in EXAMPLES if each.name == name]
    ran = []
    for block in blocks("console", example.readme):
        for part in block.text.removeprefix("$ ").split("\n$ "):
            command, _, shown = part.partition("\n")
            line = command.replace(URL, f"http://127.0.0.1:{mill.port}").replace(
                "curl ", "curl -sS ", 1
            )
            done = subprocess.run(
                line,
                shell=True,
                cwd=example.folder,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            ran.append(Shown(command, done.stdout.strip(), shown.strip()))
    assert ran, f"{example.readme} shows no command"
    return ran
