"""One mistake in the file, and one readable message: which file, which line, and what to do."""

import re
import socket
import textwrap
from collections.abc import Iterator

import pytest

from tests.ports import HOST
from tests.system.deployment import READY_S, Deployment
from tests.system.served import serve, stop

pytestmark = pytest.mark.system

START = """
from millstream import Pipeline, Worker, serve, stage

class Double(Worker):
    max_batch_size = 4
    def forward(self, batch):
        return [2 * x for x in batch]

@stage
def add(batch):
    return [x + 1 for x in batch]
"""


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    with Deployment() as mill:
        yield mill


def told(mill: Deployment, text: str, *, code: int, more: str = "") -> str:
    """What `python app.py` says before it ends, with this exit code."""
    body = START + textwrap.dedent(more) + '\nif __name__ == "__main__":\n'
    mill.write("app.py", body + textwrap.indent(textwrap.dedent(text), "    "))
    role = serve(mill, "app.py")
    role.expected_exit = code
    role.check_exit(READY_S)
    assert not mill.processes()
    assert not list(mill.runtime.iterdir())
    return role.output.strip()


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (
            'serve(Pipeline("p", [Double, add], stages={"dubble": {"max_wait_ms": 1}}))',
            "",
            r"app.py:14: \[pipelines.p.stages.dubble\]: .*no such stage; did you mean double\?",
        ),
        (
            'serve(Pipeline("p", [Double], timeout=3))',
            "",
            r"app.py:14: \[pipelines.p\] timeout: no such key; did you mean timeout_s\?",
        ),
        (
            'serve([Double, "ad"])',
            "",
            r"app.py:14: 'ad' in the chain of app is no stage: a stage is a subclass of millstream",
        ),
        ("serve([Double, Double])", "", r"app.py:14: .*double is in the chain of app twice.*repli"),
        (
            "serve([Double, Other])",
            "class Other(Double):\n    stage = 'double'\n",
            r"app.py:16: the stage double .* twice: by Double \(app.py:4\) and Other \(app.py:12\)",
        ),
        ("serve([])", "", r"app.py:14: the chain of app is empty"),
        ("serve(Double, add)", "", r"app.py:14: put the stages into a list: serve\(\[…\]\)"),
        (
            "serve([Double], prot=1)",
            "",
            r"app.py:14: serve has no option 'prot'; did you mean port",
        ),
        (
            "serve([Bad])",
            "class Bad(Worker):\n    def predict(self, batch): pass\n",
            r"app.py:12: Bad: define forward\(self, batch\); predict is never called",
        ),
        (
            "serve([Bad])",
            "class Bad(Worker):\n    def forward(self): pass\n",
            r"app.py:13: Bad.forward must be forward\(self, batch\) or",
        ),
        (
            "def f():\n    class Local(Double): pass\n    return Local\nserve([f()])",
            "",
            r"app.py:15: f.<locals>.Local is no top-level name of its file.*: move it there",
        ),
        (
            "serve([Double.replicas(2, devices='cpu')])",
            "",
            r"Double.replicas: there is no option 'devices'; did you mean device\?",
        ),
        (
            "serve([oops])",
            "@stage('oops', max_batchsize=3)\ndef oops(batch): return batch\n",
            r"@stage above oops: a stage has no 'max_batchsize'; did you mean max_batch_size\?",
        ),
    ],
)
def test_what_is_seen_before_anything_starts(
    mill: Deployment, text: str, more: str, message: str
) -> None:
    raises = "replicas: there" in message or "@stage above" in message  # a TypeError, as ever
    output = told(mill, text, more=more, code=1 if raises else 2)
    last = output.splitlines()[-1]
    assert re.search(message, last), output
    assert raises or output == last


def test_a_port_in_use(mill: Deployment) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, mill.port))
        taken.listen()
        output = told(mill, "serve([Double])", code=2)
    assert output == (
        f"app.py:14: cannot listen on {HOST}:{mill.port}: Address already in use; stop what does, "
        f"or choose another port: serve(…, port={mill.port + 1}), --port or MILLSTREAM_PORT"
    )


def test_what_its_workers_see(mill: Deployment) -> None:
    """Two processes fail, and it is told once, last."""
    more = """
        class Slow(Worker):
            def setup(self):
                import cv2_
            def forward(self, batch):
                return batch
    """
    output = told(mill, "serve([Double, Slow.replicas(2)])", more=more, code=3)
    last = output.splitlines()[-1]
    message = (
        "setup failed: ModuleNotFoundError: No module named 'cv2_': pip install cv2_ (app.py:15)"
    )
    assert last == f"millstream worker: {message}"
    assert 'app.py", line 15, in setup' in output
    assert output.count("pip install") == 1


ALONE = {
    "Few": "warm-up failed: Few.forward returned 0 results for a batch of 1: .*; see alone.py:6$",
    "Sync": "alone.py:11: Sync: concurrency = 3 needs `async def forward`$",
    "Wrong": "alone.py: Wrong is neither a subclass of Worker nor a @stage; there is Few, Sync$",
    "Fw": "alone.py: Fw is not there; did you mean Few[?]$",
}
"""By what is asked for: what `millstream worker` says of it."""


def test_what_workers_of_their_own_see(mill: Deployment) -> None:
    mill.write("alone.py", ALONE_PY)
    roles = {name: mill.worker(f"alone.py:{name}") for name in ALONE}
    for name, role in roles.items():
        role.expected_exit = 3
        role.check_exit(READY_S)
        lines = [line for line in role.output.splitlines() if line.startswith("millstream worker")]
        assert len(lines) == 1, role.output
        assert re.search(ALONE[name], lines[0]), lines


ALONE_PY = """\
from millstream import Worker

class Few(Worker):
    def setup(self):
        self.example = 1
    def forward(self, batch):
        return batch[1:]

class Sync(Worker):
    concurrency = 3
    def forward(self, batch):
        return batch

Wrong = 3
"""


def test_serve_without_a_guard(mill: Deployment) -> None:
    mill.write("app.py", START + "serve([Double, add])\n")
    role = serve(mill, "app.py")
    role.expected_exit = 3
    role.check_exit(READY_S)
    last = role.output.strip().splitlines()[-1]
    assert "app.py:12: serve(…) is called when a worker loads this file; put it below `if" in last
    assert role.output.count("put it below") <= 2  # in the traceback of the script, and after it


def test_a_package_that_is_missing(mill: Deployment) -> None:
    """Where Millstream loads the script, as `run`, and each worker do."""
    mill.write("app.py", "import sklearn_\n" + START + "\n")
    mill.write("preprocess.py", START)
    mill.write("chain.py", "import prepocess\n" + START)
    ran = mill.run("run", "app.py")
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1] == "app.py: cannot be run: pip install sklearn_"
    assert 'File "' in ran.stderr
    assert "line 1" in ran.stderr
    worker = mill.worker("chain.py:Double")
    worker.expected_exit = 3
    worker.check_exit(READY_S)
    (last,) = [line for line in worker.output.splitlines() if line.startswith("millstream")]
    assert last.endswith("No module named 'prepocess'; did you mean preprocess? (chain.py:1)")


def test_forward_and_dtypes_are_told_in_the_log(mill: Deployment) -> None:
    """These show with requests only: 500, and a line that says what came and where to look."""
    mill.write("app.py", RUNTIME)
    role = serve(mill, "app.py")
    role.wait_for_output("Ctrl-C ends it")
    with mill.client() as client:
        assert client.post("/pipelines/short", b"1").code == "worker_error"
        assert client.post("/pipelines/dtype", b"1").code == "worker_error"
    role.wait_for_output(
        "Short.forward returned 0 results for a batch of 1: it must be a list, tuple or array with "
        "one result per item, in the same order; see app.py:6"
    )
    role.wait_for_output('given="ndarray float64 (3,)"')
    role.wait_for_output('advice="the stage before gives another dtype than this one takes')
    assert re.search(r"app.py\", line 16, in forward", role.output)
    stop(role)


RUNTIME = """\
import numpy as np
from millstream import Worker, serve

class Short(Worker):
    max_batch_size = 8
    def forward(self, batch):
        return batch[1:]

class Wide(Worker):
    def forward(self, batch):
        return [np.zeros(3) for _ in batch]

class Strict(Worker):
    def forward(self, batch):
        if batch[0].dtype != np.float32:
            raise RuntimeError("mat1 and mat2 must have the same dtype, but got Double and Float")

if __name__ == "__main__":
    serve({"short": [Short], "dtype": [Wide, Strict]})
"""


def test_no_serve_in_the_script(mill: Deployment) -> None:
    mill.write("app.py", START)
    ran = mill.run("run", "app.py")
    assert ran.returncode == 2
    assert "app.py: never calls serve(…) below `if __name__" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_a_missing_script(mill: Deployment) -> None:
    mill.write("app.py", START)
    ran = mill.run("run", "ap.py")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "ap.py: no such file; did you mean app.py?" in ran.stderr
