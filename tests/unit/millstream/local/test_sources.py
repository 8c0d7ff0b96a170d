"""Which stages an edit touches."""

import pytest

from millstream.local.sources import Code, look

APP = '''
"""What it is."""
import json
import re
from helpers import clean
from millstream import Worker, serve

LIMIT = 3

class First(Worker):
    """Reads."""
    def forward(self, batch):
        return [clean(json.loads(x)) for x in batch]

class Second(First):
    def forward(self, batch):
        import late
        return [re.sub("a", "b", x) for x in batch]

class Third(Worker):
    def forward(self, batch):
        return batch

if __name__ == "__main__":
    serve([First, Second, Third])
'''
FILES = {"/p/app.py": APP, "/p/helpers.py": "from deeper import x\n", "/p/deeper.py": "x = 1\n",
         "/p/late.py": "y = 1\n"}  # fmt: skip
ALL = {"first", "second", "third"}


def seen(files: dict[str, str]) -> Code:
    stages = {name: ("/p/app.py", name.capitalize()) for name in ALL}
    return look("/p/app.py", stages, files.get)


def touched(old: str, new: str, path: str = "/p/app.py") -> set[str]:
    before = seen(FILES)
    assert old in FILES[path]
    after = seen({**FILES, path: FILES[path].replace(old, new)})
    return {name for name in ALL if before.stages[name] != after.stages[name]}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("return batch\n", "return batch[:]\n", {"third"}),
        ("json.loads(x)", "json.loads(x, strict=False)", {"first", "second"}),  # a base class
        ('re.sub("a"', 're.sub("c"', {"second"}),
        ("LIMIT = 3", "LIMIT = 4", ALL),
        ("import re\n", "import regex as re\n", {"second"}),
        ("import re\n", "import re\nimport sideeffect\n", ALL),
        ("Reads.", "Reads, and says so.", set()),
        ("What it is.", "What it was.", set()),
        ("LIMIT = 3", "LIMIT = 3  # no more", set()),
        ("serve([First, Second, Third])", "serve([Third])", set()),
    ],
)
def test_an_edit_touches_who_is_made_of_it(old: str, new: str, expected: set[str]) -> None:
    assert touched(old, new) == expected


def test_modules_beside_the_script() -> None:
    assert touched("x = 1", "x = 2", "/p/deeper.py") == {"first", "second"}
    assert touched("y = 1", "y = 2", "/p/late.py") == {"second"}


def test_the_script_as_a_whole_has_a_digest() -> None:
    before = seen(FILES)
    for path, text in FILES.items():
        assert seen({**FILES, path: f"{text}\nmore = 1\n"}).script != before.script
    assert seen({**FILES, "/p/app.py": APP + "# a comment\n"}) == before
    assert before.files >= set(FILES)


def test_a_broken_file_is_named() -> None:
    with pytest.raises(SyntaxError) as caught:
        seen({**FILES, "/p/deeper.py": "x = \n"})
    assert (caught.value.filename, caught.value.lineno) == ("/p/deeper.py", 1)


def test_packages_and_relative_imports() -> None:
    files = {
        "/p/app.py": "from pkg.stages import help\nclass A:\n    x = help\n",
        "/p/pkg/__init__.py": "",
        "/p/pkg/stages.py": "from . import other\nfrom ..pkg import third\n",
        "/p/pkg/other.py": "1",
        "/p/pkg/third.py": "1",
    }
    stages = {"a": ("/p/app.py", "A")}
    before = look("/p/app.py", stages, files.get)
    for path in ("/p/pkg/__init__.py", "/p/pkg/other.py", "/p/pkg/third.py"):
        after = look("/p/app.py", stages, {**files, path: "z = 2"}.get)
        assert after.stages != before.stages, path
