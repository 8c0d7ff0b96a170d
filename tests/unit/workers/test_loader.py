"""Loading scripts: which class is taken, and what a person is told who got something wrong."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workers.checks import ContractError, shape_of
from workers.loader import LoadError, load

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    path, modules = list(sys.path), set(sys.modules)

    def write_script(body: str, name: str = "a_script.py") -> str:
        file = tmp_path / name
        file.write_text("from millstream import Worker\n" + body)
        return str(file)

    yield write_script
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


ECHO = "class Echo(Worker):\n    def forward(self, batch): return batch\n"


def test_the_only_class_is_taken(write: Write) -> None:
    cls, warnings = load(write(ECHO))
    assert cls.__name__ == "Echo"
    assert warnings == []
    assert shape_of(cls()).stage == "echo"


def test_imported_workers_are_not_the_scripts_own(write: Write, tmp_path: Path) -> None:
    write(ECHO, "other_script.py")
    body = "from other_script import Echo\nclass Mine(Echo): pass\n"
    assert load(write(body))[0].__name__ == "Mine"


def test_the_scripts_folder_comes_last(write: Write, tmp_path: Path) -> None:
    write("raise SystemError", "json.py")
    load(write("import json; json.dumps\n" + ECHO))
    assert sys.path[-1] == str(tmp_path)


def test_a_script_may_bear_the_name_of_a_library(write: Write) -> None:
    cls, _ = load(write("import numpy; numpy.zeros(1)\n" + ECHO, "numpy.py"))
    assert cls.__module__ == "plugin_numpy"


def test_a_class_can_be_named(write: Write) -> None:
    script = write(ECHO + "class Other(Echo): pass\n")
    assert load(script, "Other")[0].__name__ == "Other"
    with pytest.raises(LoadError, match=r"several workers \(Echo, Other\).*a_script.py:Echo"):
        load(script)
    with pytest.raises(LoadError, match="Nope is not there; there is Echo, Other"):
        load(script, "Nope")
    with pytest.raises(LoadError, match="Path is neither a subclass of Worker nor"):
        load(write("from pathlib import Path\n"), "Path")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "defines no subclass"),
        ("class A(Worker): pass", r"define forward\(self, batch\)"),
        ("class A(Worker):\n def predict(self, x): pass", "predict is never called"),
        ("class A(Worker):\n def forward(self): pass", r"must be forward\(self, batch\) or"),
        ("class A(Worker):\n def forward(self, a, b, c): pass", r"must be forward\(self, batch\)"),
        ("class A(Worker):\n def forward(self, batch, *, x): pass", "nobody gives it 'x'"),
        ("class A(Worker):\n def forward(self, batch): yield 1", "yield"),
        (ECHO + "    def setup(self, x): pass", "setup must take no argument"),
        (ECHO + "    def decode(self, body): pass", "decode must take 2 arguments"),
    ],
)
def test_what_is_no_plugin(write: Write, body: str, message: str) -> None:
    with pytest.raises(LoadError, match=message) as caught:
        load(write(body))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("forward", "wants"),
    [
        ("def forward(self, batch): pass", False),
        ("def forward(self, batch, requests): pass", True),
        ("def forward(self, batch, requests=None): pass", True),
        ("def forward(self, batch, threshold=0.5): pass", False),
        ("def forward(self, *batches): pass", False),
        ("async def forward(self, batch, infos): pass", True),
    ],
)
def test_who_is_given_request_infos(write: Write, forward: str, wants: bool) -> None:
    cls, _ = load(write(f"class A(Worker):\n    {forward}\n"))
    assert shape_of(cls()).wants_requests is wants


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("max_batch_size = 0", "between 1 and"),
        ("max_batch_size = '8'", "must be int, not str"),
        ("max_batch_size = True", "must be int, not bool"),
        ("max_batch_size = 8.0", "must be int, not float"),
        ("concurrency = 2", "async def forward"),
        ("concurrency = 0", "between 1 and"),
        ("repeatable = 1", "must be bool"),
        ("stage = 'a b'", "no name of a stage"),
        ("content_type = 'png'", "content_type"),
        ("content_type = 'a/b\\r\\nX: 1'", "content_type"),
    ],
)
def test_attributes_are_checked(write: Write, attribute: str, message: str) -> None:
    cls, _ = load(write(ECHO + f"    {attribute}\n"))
    with pytest.raises(ContractError, match=message):
        shape_of(cls())


@pytest.mark.parametrize(
    ("line", "nearest"),
    [
        ("max_batchsize = 8", "max_batch_size"),
        ("batch_size = 8", "max_batch_size"),
        ("repeateable = False", "repeatable"),
        ("def tear_down(self): pass", "teardown"),
        ("def Setup(self): pass", "setup"),
    ],
)
def test_misspelt_names_are_warned_of(write: Write, line: str, nearest: str) -> None:
    _, (warning,) = load(write(ECHO + f"    {line}\n"))
    assert f"did you mean {nearest}?" in warning


def test_names_of_ones_own_are_not(write: Write) -> None:
    _, warnings = load(write(ECHO + "    labels = ()\n    def preprocess(self): pass\n"))
    assert warnings == []


def test_an_error_in_the_script_shows_the_scripts_own_lines(write: Write) -> None:
    with pytest.raises(LoadError, match="ValueError: no weights") as caught:
        load(write("def load():\n    raise ValueError('no weights')\nload()\n"))
    assert "in load" in caught.value.trace
    assert "loader.py" not in caught.value.trace
    assert "importlib" not in caught.value.trace


@pytest.mark.parametrize("body", ["import sys; sys.exit(0)", "class A(:", "import nowhere_to_find"])
def test_no_script_ends_its_process(write: Write, body: str) -> None:
    with pytest.raises(LoadError) as caught:
        load(write(body))
    assert "a_script.py" in caught.value.trace


def test_a_module_that_bears_our_name_is_pointed_out(write: Write) -> None:
    write("x = 1", "workers.py")
    with pytest.raises(LoadError, match=r"workers\.py beside the script cannot be imported"):
        load(write("from workers import x\n"))
    _, (warning,) = load(write(ECHO))
    assert "rename yours" in warning


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no such file"):
        load(str(tmp_path / "none.py"))
