"""Has `mosec` mean `millstream.mosec`, all of its modules included, each being one module only.

A script may come by the name `mosec` in several ways: a package of this name that imports all of
ours, an entry in `sys.modules`, or `millstream mosec`. Whichever it is, `mosec.mixin` must be
`millstream.mosec.mixin` itself: a second copy would have classes and exceptions of its own.
"""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NAME = "mosec"
_OURS = "millstream.mosec"


class _Loader(Loader):
    """Gives a module that there is already, as it is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # which the import system has just replaced


class _Finder(MetaPathFinder):
    """Goes before all others for the modules below `mosec`, where that is ours; and for `mosec`
    itself where that is wanted, whatever else bears the name."""

    is_wanted = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See the base class."""
        if fullname == NAME:
            return self._spec(fullname) if self.is_wanted else None
        if fullname.startswith(f"{NAME}.") and _is_ours(sys.modules.get(NAME)):
            return self._spec(fullname)
        return None

    @staticmethod
    def _spec(fullname: str) -> ModuleSpec | None:
        ours = _OURS + fullname.removeprefix(NAME)
        found = importlib.util.find_spec(ours)
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, _Loader(ours), is_package=is_package)


_finder = _Finder()


def install() -> None:
    """Modules below a `mosec` that is ours are ours."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def take_over() -> None:
    """`mosec` is ours from now on, in this process."""
    install()
    _finder.is_wanted = True
    if not _is_ours(sys.modules.get(NAME)):
        for name in [name for name in sys.modules if name == NAME or name.startswith(f"{NAME}.")]:
            del sys.modules[name]
    importlib.import_module(NAME)


def _is_ours(module: ModuleType | None) -> bool:
    """Whether it is this package, or one that has its names from here."""
    ours = sys.modules.get(_OURS)
    if module is None or ours is None:
        return False
    worker = getattr(ours, "Worker", None)
    return module is ours or (worker is not None and getattr(module, "Worker", None) is worker)
