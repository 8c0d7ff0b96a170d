"""Loads an example's scripts as the worker does: by file, with the modules beside them."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ScriptLoader = Callable[[Path], ModuleType]


@pytest.fixture(scope="module")
def load_script() -> Iterator[ScriptLoader]:
    """Load a script by path; what it imported from its own folder is forgotten afterwards."""
    folders: set[Path] = set()

    def load(path: Path) -> ModuleType:
        if path.parent not in folders:
            folders.add(path.parent)
            sys.path.append(str(path.parent))
        name = f"script_{path.parent.name}_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).parent in folders:
            del sys.modules[name]
    for folder in folders:
        sys.path.remove(str(folder))
