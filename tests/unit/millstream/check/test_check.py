"""What a check finds: each mistake that is easily made, with its file, its line and what to do."""

import sys
from pathlib import Path

import pytest

from millstream.chain.findings import Finding
from millstream.check.child import check
from millstream.check.report import Asked, Report
from millstream.check.words import tables
from millstream.cli.tables import plain

PRE = """\
import numpy as np
from millstream import Worker


class Pre(Worker):
    max_batch_size = 4

    def setup(self):
        self.example = [1, 2]

    def forward(self, batch):
        return [np.array(each, np.float32) for each in batch]
"""
INFER = """\
import numpy as np
from millstream import Worker


class Infer(Worker):
    max_batch_size = 8

    def setup(self):
        self.example = np.zeros(2, np.float32)

    def forward(self, batch):
        return np.stack(batch) * 2
"""
FILE = '[pipelines.p]\nchain = ["pre", "infer"]\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("pre.py").write_text(PRE)
    Path("infer.py").write_text(INFER)
    Path("p.toml").write_text(FILE)
    return tmp_path


def run(*targets: str, **asked: object) -> Report:
    given = list(targets) or ["p.toml", "pre.py", "infer.py"]
    return check(Asked(targets=given, **asked), lambda _: None)  # type: ignore[arg-type]


def changed(name: str, before: str, after: str) -> None:
    text = Path(name).read_text()
    assert before in text
    Path(name).write_text(text.replace(before, after))


def only(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


class TestAllIsWell:
    def test_what_is_told(self) -> None:
        report = run()
        assert report.findings == []
        pre, infer = report.stages
        assert (pre.takes, pre.gives) == ("list[2] of int", "float32[2]")
        assert (infer.takes, infer.gives) == ("float32[2]", "JSON, 9 bytes")
        assert [timing.size for timing in infer.timings] == [1, 2, 4, 8]
        assert infer.model is not None
        assert infer.model.run_s(8) > 0.0
        assert "nothing is wrong" in plain(tables(report))

    def test_what_a_load_needs(self) -> None:
        report = run(rate_per_s=50.0, slo_s=0.5)
        assert report.load is not None
        assert [stage.workers for stage in report.load.stages] == [1, 1]
        assert report.load.has_cores >= 1
        assert "For 50 requests a second" in plain(tables(report))

    def test_a_load_that_no_number_of_workers_serves(self) -> None:
        changed("infer.py", "return np", "import time; time.sleep(0.02)\n        return np")
        found = only(run(rate_per_s=50.0, slo_s=0.01))
        assert "one request alone takes" in found.what
        assert not found.is_warning

    def test_requests_from_files(self) -> None:
        Path("body.json").write_text("[3, 4]")
        Path("other.json").write_text("[5, 6]")
        changed("pre.py", "        self.example = [1, 2]\n", "        pass\n")
        report = run(inputs=["body.json", "other.json"], content_type="application/json")
        assert report.findings == []
        assert report.stages[0].takes == "application/json"

    def test_without_any_item(self) -> None:
        changed("pre.py", "        self.example = [1, 2]\n", "        pass\n")
        report = run(rate_per_s=10.0)
        first, load = report.findings
        assert first.is_warning
        assert first.where == "pre.py:5"
        assert "--input FILE" in first.todo
        assert "pre has no times" in load.what
        assert report.stages[1].gives == "JSON, 9 bytes"  # it has an example of its own

    def test_declared_tensors_need_no_example(self) -> None:
        Path("one.py").write_text(
            "from millstream import Tensor, Worker\n\n\n"
            "class One(Worker):\n"
            "    inputs = {'x': Tensor('FP32', [-1, 2])}\n"
            "    outputs = {'y': Tensor('FP32', [-1])}\n\n"
            "    def forward(self, batch):\n"
            "        return [{'y': each['x'].sum(axis=1)} for each in batch]\n"
        )
        report = run("one.py")
        assert report.findings == []
        changed("one.py", "axis=1)", "axis=1).astype(str)")
        assert "output 'y' is FP32, not <U32" in only(run("one.py")).what

    def test_a_stream(self) -> None:
        changed("infer.py", "return np.stack(batch) * 2", "return [iter([1, 2]) for _ in batch]")
        report = run()
        assert report.findings == []
        assert report.stages[1].gives == "a stream (2 values were taken)"
        assert report.stages[1].timings == []

    def test_an_async_forward_that_waits(self) -> None:
        changed("infer.py", "    def forward", "    concurrency = 4\n\n    async def forward")
        report = run()
        assert report.findings == []
        assert report.stages[1].model is not None
        assert report.stages[1].model.concurrency == 4

    def test_functions_and_serve(self) -> None:
        Path("app.py").write_text(
            "from millstream import Pipeline, serve, stage\n\n\n"
            "@stage('infer', max_batch_size=8, example='a')\n"
            "def shout(batch):\n    return [each.upper() for each in batch]\n\n\n"
            "if __name__ == '__main__':\n"
            "    serve(Pipeline('shout', [shout], stages={'infer': {'max_batch_size': 2}}))\n"
        )
        report = run("app.py")
        assert report.findings == []
        assert report.pipeline == "shout"
        assert report.stages[0].place == "app.py:4"
        assert report.stages[0].max_batch_size == 2


class TestMistakes:
    def test_a_typo_in_a_stage_name(self) -> None:
        changed("p.toml", '"infer"', '"infre"')
        unknown, unserved = run().findings
        assert unknown.where == "infer.py:5"
        assert "did you mean infre?" in unknown.what
        assert unserved.where == "p.toml:2"

    def test_one_result_too_few(self) -> None:
        changed("pre.py", "        self.example = [1, 2]", "        pass")
        changed("pre.py", "for each in batch]", "for each in batch[1:]]")
        Path("body").write_text("[1, 2]")
        found = run(inputs=["body"]).findings[0]
        assert found.where == "pre.py:11"
        assert found.what == (
            "Pre.forward returned 0 results for a batch of 1: it must be a list, tuple or array "
            "with one result per item, in the same order; it was given body"
        )

    def test_one_result_too_few_of_the_example(self) -> None:
        changed("infer.py", "np.stack(batch) * 2", "np.stack(batch)[1:] * 2")
        found = only(run())
        assert found.where == "infer.py:11"
        assert found.what.startswith("Infer.forward returned 0 results for a batch of 1: it must")
        assert found.what.endswith("it was given its own example")

    def test_one_result_too_few_in_a_larger_batch(self) -> None:
        changed("infer.py", "        self.example = np.zeros(2, np.float32)", "        pass")
        changed("infer.py", "np.stack(batch) * 2", "np.stack(batch)[:7] * 2")
        assert "returned 7 results for a batch of 8" in only(run()).what

    def test_a_missing_package(self) -> None:
        changed("infer.py", "import numpy as np", "import nosuchpackage")
        found = only(run())
        assert str(found) == (
            "infer.py: cannot be loaded: ModuleNotFoundError: No module named 'nosuchpackage': "
            "pip install nosuchpackage (infer.py:1)"
        )

    def test_a_missing_package_that_setup_imports(self) -> None:
        changed(
            "infer.py", "        self.example", "        import cv2x.nowhere\n        self.example"
        )
        found = only(run())
        assert found.where == "infer.py:8"
        assert found.what.endswith("No module named 'cv2x': pip install cv2x")

    def test_a_wrong_dtype(self) -> None:
        changed("pre.py", "np.float32", "np.float64")
        found = only(run())
        assert found.where == "pre.py:11"
        assert found.what == (
            "Pre returns float64[2], and Infer (infer.py:5) has as its example float32[2]"
        )

    def test_a_wrong_dtype_that_is_declared(self) -> None:
        changed(
            "infer.py",
            "    max_batch_size = 8\n",
            "    max_batch_size = 8\n    inputs = {'x': Tensor('FP32', [2])}\n",
        )
        changed("infer.py", "import Worker", "import Tensor, Worker")
        changed("pre.py", "np.float32", "np.float64")
        found = only(run())
        assert "Pre returns float64[2] for ['x'], and Infer" in found.what
        assert "declares as its inputs FP32[2]" in found.what

    def test_a_wrong_dtype_at_which_the_next_stage_fails(self) -> None:
        changed("pre.py", "np.array(each, np.float32)", "{'x': each}")
        differs, raised = run().findings
        assert "Pre returns {x: list[2] of int}" in differs.what
        assert raised.where == "infer.py:11"
        assert "Infer.forward raised TypeError" in raised.what
        assert "it was given what Pre (pre.py:11) returned" in raised.what
        assert "line 12, in forward" in raised.trace

    def test_two_classes_for_one_stage(self) -> None:
        Path("again.py").write_text(
            INFER.replace("Infer", "Again").replace("max_b", "stage = 'infer'\n    max_b")
        )
        found = only(run("p.toml", "pre.py", "infer.py", "again.py"))
        assert found.where == "infer.py:5"
        assert "Infer and Again (again.py:5) both serve the stage 'infer'" in found.what

    def test_what_cannot_travel(self) -> None:
        changed("pre.py", "np.array(each, np.float32)", "{'boxes': [each, {1, 2}]}")
        found = only(run())
        assert found.where == "pre.py:11"
        assert 'result["boxes"][1]: set cannot travel between stages' in found.what

    def test_results_that_depend_on_company(self) -> None:
        changed("infer.py", "np.stack(batch) * 2", "np.stack(batch) - np.mean(np.stack(batch))")
        found = only(run())
        assert found.is_warning
        assert found.where == "infer.py:11"
        assert "gives another result in a batch of 8 than alone" in found.what

    def test_results_drawn_by_chance_say_nothing(self) -> None:
        changed("infer.py", "np.stack(batch) * 2", "np.random.rand(len(batch), 2)")
        assert run().findings == []

    def test_an_example_that_is_rejected(self) -> None:
        changed("infer.py", "import Worker", "import Reject, Worker")
        changed("infer.py", "np.stack(batch) * 2", "[Reject('never') for _ in batch]")
        found = only(run())
        assert found.what.startswith("Infer answers rejected: never")

    def test_setup_and_teardown_that_raise(self) -> None:
        changed(
            "infer.py", "        self.example", "        open('nosuchmodel')\n        self.example"
        )
        Path("pre.py").write_text(PRE + "\n    def teardown(self):\n        1 / 0\n")
        setup, teardown = run().findings
        assert setup.where == "infer.py:8"
        assert "Infer.setup raised FileNotFoundError" in setup.what
        assert "line 9, in setup" in setup.trace
        assert teardown.where == "pre.py:14"
        assert "Pre.teardown raised ZeroDivisionError" in teardown.what

    def test_a_body_that_decode_refuses(self) -> None:
        Path("body").write_text("{")
        changed("pre.py", "        self.example = [1, 2]", "        pass")
        found = run(inputs=["body"]).findings[0]
        assert found.what.startswith("Pre answers bad_body: JSON")
        assert found.what.endswith("it was given body")

    def test_a_misspelt_attribute(self) -> None:
        changed("pre.py", "max_batch_size", "max_batchsize")
        found = only(run())
        assert found.is_warning
        assert "did you mean max_batch_size?" in found.what
