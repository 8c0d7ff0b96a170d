"""Which code a stage is made of, so that an edit can be told from one that does not touch it.

Pure: reads no file itself. A stage is touched by a change of

- its own class or function, and of other stages that it names;
- whatever else stands at the top level of its file: constants, helpers, other classes;
- an import whose name it, or that other code, uses, and of the module behind it where that lies
  beside the script. An import that nobody uses is there for what it does, and so counts for all.

What stands below `if __name__ == "__main__":` is no stage's. Comments, docstrings and the place of
a line do not count.
"""

import ast
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

Read: TypeAlias = Callable[[str], str | None]
"""A file's text by its path; None where there is none."""
_Definition: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Code(NamedTuple):
    """What the sources say now."""

    script: str
    """A digest of the script as a whole, with all that it imports from beside it."""
    stages: dict[str, str]
    """Of what each stage is made of, by the name of its role."""
    files: frozenset[str]
    """All that was looked at, or would have been if it were there."""


def look(script: str, stages: Mapping[str, tuple[str, str]], read: Read) -> Code:
    """The code of a script and of stages, each of which is a file and the name in it.

    Raises SyntaxError, whose filename and line tell where.
    """
    modules = _Modules(read)
    digests: dict[str, str] = {}
    for name, (path, _) in stages.items():
        beside = {attribute for other, attribute in stages.values() if other == path}
        digests[name] = _stage(modules, path, stages[name][1], beside)
    return Code(modules.digest(script, _folder(script)), digests, frozenset(modules.files))


class _Modules:
    """The sources beside a script, parsed once."""

    def __init__(self, read: Read) -> None:
        self.files: set[str] = set()
        self._read = read
        self._trees: dict[str, ast.Module | None] = {}

    def tree(self, path: str) -> ast.Module | None:
        """Of a file; None where there is none."""
        if path not in self._trees:
            self.files.add(path)
            text = self._read(path)
            self._trees[path] = None if text is None else _parse(text, path)
        return self._trees[path]

    def digest(self, path: str, folder: str) -> str:
        """Of a module, and of those beside it that it imports, and so on."""
        seen: dict[str, None] = {path: None}
        parts: list[str] = []
        for each in _growing(seen):
            tree = self.tree(each)
            if tree is not None:
                parts.append(ast.dump(tree))
                seen.update(dict.fromkeys(self.imported(tree, each, folder)))
        return _digest(parts)

    def imported(self, node: ast.AST, path: str, folder: str) -> list[str]:
        """The files beside the script that imports within this node mean."""
        found: list[str] = []
        for each in ast.walk(node):
            if isinstance(each, ast.Import):
                found += [file for alias in each.names for file in self._files(alias.name, folder)]
            elif isinstance(each, ast.ImportFrom):
                base = os.path.dirname(path) if each.level else folder
                for _ in range(each.level - 1):
                    base = os.path.dirname(base)
                module = f"{each.module}." if each.module else ""
                names = [module.rstrip(".")] if module else []
                names += [f"{module}{alias.name}" for alias in each.names]
                found += [file for name in names for file in self._files(name, base)]
        return found

    def _files(self, name: str, folder: str) -> list[str]:
        """What a dotted name stands for below a folder: each of its packages, and the module."""
        found: list[str] = []
        base = folder
        for part in name.split("."):
            base = os.path.join(base, part)
            found += [f"{base}.py", os.path.join(base, "__init__.py")]
        return [file for file in found if self.tree(file) is not None]


def _growing(seen: Mapping[str, None]) -> Iterator[str]:
    """The keys of a dict, those included that are added meanwhile."""
    done = 0
    while done < len(seen):
        yield list(seen)[done]
        done += 1


def _stage(modules: _Modules, path: str, attribute: str, stages: Iterable[str]) -> str:
    tree = modules.tree(path)
    if tree is None:
        return ""
    definitions: dict[str, _Definition] = {}
    shared: list[ast.AST] = []
    imports: list[ast.Import | ast.ImportFrom] = []
    for node in tree.body:
        if isinstance(node, _Definition) and node.name in stages:
            definitions[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
        elif not _is_main_block(node):
            shared.append(node)
    everything = [*shared, *definitions.values()]
    used_by_any = set().union(*map(_names, everything))
    used = set().union(*map(_names, shared), {attribute})
    mine: dict[str, _Definition] = {}
    while new := [name for name in definitions if name in used and name not in mine]:
        for name in new:
            mine[name] = definitions[name]
            used |= _names(definitions[name])
    counted = [node for node in imports if _counts(node, used, used_by_any)]
    nodes = [*shared, *(definitions[name] for name in sorted(mine)), *counted]
    folder = _folder(path)
    beside = {file for node in nodes for file in modules.imported(node, path, folder)}
    return _digest(
        [*map(ast.dump, nodes), *(modules.digest(file, folder) for file in sorted(beside))]
    )


def _counts(node: ast.Import | ast.ImportFrom, used: set[str], used_by_any: set[str]) -> bool:
    bound = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return bool(bound & used) or not bound & used_by_any


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _is_main_block(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.left, ast.Name)
        and node.test.left.id == "__name__"
    )


def _parse(text: str, path: str) -> ast.Module:
    """Without docstrings."""
    tree = ast.parse(text, path)
    for each in ast.walk(tree):
        body = getattr(each, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            body[:1] = [] if len(body) > 1 or each is tree else [ast.Pass()]
    return tree


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))
