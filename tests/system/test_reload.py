"""`millstream run app.py --reload` under load: what an edit touches is replaced, and nothing fails.

One deployment serves all tests here, one edit after the other; the last test stops it.
"""

import os
import re
from collections.abc import Iterator

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.system.client import HttpAnswer
from tests.system.deployment import READY_S, Deployment, Role, wait_until
from tests.system.load import Load, Request
from tests.system.served import serve, stop

pytestmark = pytest.mark.system

APP = """\
import os
from beside import SUFFIX
from millstream import Worker, serve, stage

class First(Worker):
    max_batch_size = 8
    def forward(self, batch):
        return [{"first": os.getpid()} for _ in batch]

class Second(Worker):
    max_batch_size = 8
    def setup(self):
        self.word = "one"
    def forward(self, batch):
        return [{**x, "second": os.getpid(), "word": self.word} for x in batch]

@stage(max_batch_size=8)
def third(batch):
    return [{**x, "third": os.getpid(), "suffix": SUFFIX} for x in batch]

if __name__ == "__main__":
    serve([First, Second, third])
"""
BESIDE = 'SUFFIX = "a"\n'
STAGES = {"first", "second", "third"}


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    with Deployment() as mill:
        write(mill, "app.py", APP)
        write(mill, "beside.py", BESIDE)
        yield mill


@pytest.fixture(scope="module")
def app(mill: Deployment) -> Role:
    role = serve(mill, "app.py", "run", "--reload")
    role.wait_for_output("Ctrl-C ends it")
    return role


@pytest.fixture
def load(mill: Deployment, app: Role) -> Iterator[Load]:
    """Requests all the while; each must be answered with 200."""

    def make(_number: int) -> Request:
        return Request(b"1", {}, lambda answer: set(answer.json()) >= STAGES)

    with Load(mill.port, "/inference", clients=3, make=make) as load:
        yield load
    assert set(load.answers) == {"200"}
    assert (load.cut, load.wrong, load.refused) == ([], [], 0)


def write(mill: Deployment, name: str, text: str) -> None:
    """As editors do: another file, renamed."""
    mill.write(f"{name}.new", text)
    os.replace(mill.folder / f"{name}.new", mill.folder / name)


def answer(mill: Deployment) -> dict[str, object]:
    with mill.client() as client:
        said: HttpAnswer = client.post("/inference", b"1")
    assert said.status == 200
    values: dict[str, object] = said.json()
    return values


def until(mill: Deployment, **wanted: object) -> dict[str, object]:
    """The first answer that has these values."""
    said: dict[str, object] = {}

    def comes() -> bool:
        said.update(answer(mill))
        return said.items() >= wanted.items()

    wait_until(comes, READY_S, f"an answer with {wanted}")
    return said


def told(app: Role, pattern: str) -> None:
    wait_until(lambda: re.search(pattern, app.output), READY_S, pattern)


def test_a_class_that_is_edited_is_replaced_and_no_other(
    mill: Deployment, app: Role, load: Load
) -> None:
    before = answer(mill)
    write(mill, "app.py", APP.replace('"one"', '"two"'))
    after = until(mill, word="two")
    told(app, r"second runs the new code, \d+\.\d s after the edit")
    assert (after["first"], after["third"]) == (before["first"], before["third"])
    assert after["second"] != before["second"]
    assert until(mill, word="two")["second"] == after["second"]


def test_a_module_beside_it_touches_who_uses_it(mill: Deployment, app: Role, load: Load) -> None:
    before = answer(mill)
    write(mill, "beside.py", 'SUFFIX = "b"\n')
    after = until(mill, suffix="b")
    assert (after["first"], after["second"]) == (before["first"], before["second"])


BROKEN = {
    "syntax": ('{**x, "second"', "{**x, ", r"app.py:\d+: SyntaxError: "),
    "setup": ('= "two"', "= self.nothing", r"setup failed: AttributeError: .*nothing"),
    "chain": ("serve([First", "serve([Frist", r"NameError: name 'Frist' is not defined"),
}


@pytest.mark.parametrize("edit", BROKEN)
def test_a_broken_edit_is_told_and_the_code_from_before_goes_on(
    mill: Deployment, app: Role, load: Load, edit: str
) -> None:
    old, new, message = BROKEN[edit]
    before, told_before = answer(mill), len(app.output)
    write(mill, "app.py", APP.replace('"one"', '"two"').replace(old, new))
    wait_until(
        lambda: "goes on with the code from before" in app.output[told_before:], READY_S, message
    )
    assert re.search(message, app.output[told_before:])
    assert app.output[told_before:].count("goes on with the code") == 1
    assert answer(mill) == before


def test_a_stage_may_come_and_go(mill: Deployment, app: Role, load: Load) -> None:
    text = APP.replace("serve([First, Second, third])", "serve([First, third, Fourth])").replace(
        "if __name__", "class Fourth(Second):\n    pass\n\n\nif __name__"
    )
    write(mill, "app.py", text)
    wait_until(lambda: "fourth" in pipeline(mill), READY_S, "another chain")
    after = until(mill, word="one")
    assert pipeline(mill) == ["first", "third", "fourth"]
    assert set(after) >= STAGES
    wait_until(
        lambda: {role["stage"] for role in mill_workers(app)} == {"first", "third", "fourth"},
        READY_S,
        "the old stage has gone",
    )


def pipeline(mill: Deployment) -> list[str]:
    with mill.client() as client:
        document = client.get("/pipelines/app").json()
    return [stage if isinstance(stage, str) else stage["name"] for stage in document["chain"]]


def words_of(child: psutil.Process) -> list[str]:
    try:
        words: list[str] = child.cmdline()
    except psutil.Error:  # it has just ended
        return []
    return words


def mill_workers(app: Role) -> list[dict[str, str]]:
    words = [words_of(child) for child in app.children()]
    return [{"stage": line[line.index("--stage") + 1]} for line in words if "--stage" in line]


def test_ctrl_c_ends_it(mill: Deployment, app: Role) -> None:
    stop(app)
    assert not mill.processes()
    assert not list(mill.runtime.iterdir())
