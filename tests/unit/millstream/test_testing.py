"""`millstream.testing.pipeline`: what it is given, how it calls, what it tells, what it leaves."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millstream import Reject, RequestInfo, Tensor, Worker
from millstream.testing import AnswerError, ChainError, pipeline


class Sizes(Worker):
    """Answers with the size of the batch."""

    max_batch_size = 4

    def forward(self, batch: list[Any]) -> list[Any]:
        return [len(batch)] * len(batch)


class Echo(Worker):
    max_batch_size = 8

    def forward(self, batch: list[Any]) -> list[Any]:
        return batch


class Fails(Worker):
    max_batch_size = 8

    def forward(self, batch: list[Any]) -> list[Any]:
        if "bad" in batch:
            raise ZeroDivisionError("as asked")
        return batch


class Waits(Worker):
    """Everything of it is asynchronous, and in one event loop."""

    max_batch_size = 8

    async def setup(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.torn = False

    async def forward(self, batch: list[Any]) -> list[Any]:
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        return [self.tell(each) if isinstance(each, int) else each for each in batch]

    async def tell(self, count: int) -> AsyncIterator[int]:
        for number in range(count):
            await asyncio.sleep(0)
            yield number

    async def teardown(self) -> None:
        assert asyncio.get_running_loop() is self.loop
        self.torn = True


class TestCalls:
    def test_batches_are_as_full_as_they_may_be(self) -> None:
        with pipeline(Sizes) as run:
            assert [each.json() for each in run.batch(json=[0] * 6)] == [4, 4, 4, 4, 2, 2]
            assert run(b"0").json() == 1

    def test_only_the_guilty_item_fails(self) -> None:
        with pipeline(Echo, Fails, Sizes) as run:
            answers = run.batch(json=["a", "bad", "b"])
        assert [each.status for each in answers] == [200, 500, 200]
        assert answers[1].code == "worker_error"
        assert "ZeroDivisionError: as asked" in answers[1].trace
        assert "ZeroDivisionError" not in answers[1].text
        assert "ZeroDivisionError: as asked" in repr(answers[1])

    def test_an_error_that_is_not_expected(self) -> None:
        with pipeline(Fails) as run:
            assert run(b'"good"').raise_for_status().json() == "good"
            with pytest.raises(
                AnswerError, match=r"500 worker_error(.|\n)*in forward(.|\n)*as asked"
            ):
                run(b'"bad"').raise_for_status()

    def test_it_stands_in_the_log_as_well(self, caplog: pytest.LogCaptureFixture) -> None:
        with pipeline(Fails) as run:
            run(b'"bad"')
        assert "ZeroDivisionError: as asked" in caplog.text

    def test_arrays_between_stages_are_read_only_and_nobody_elses(self) -> None:
        class Same(Worker):
            max_batch_size = 1

            def setup(self) -> None:
                self.memory = np.zeros(30_000, np.float32)

            def forward(self, batch: list[Any]) -> list[Any]:
                self.memory[:] = batch[0]  # for each batch the same memory again
                return [self.memory]

        class Look(Worker):
            max_batch_size = 8

            def forward(self, batch: list[Any]) -> list[Any]:
                return [[float(each[0]), each.flags.writeable] for each in batch]

        with pipeline(Same, Look) as run:
            assert [each.json() for each in run.batch(json=[1, 2])] == [[1, False], [2, False]]

    def test_values_as_a_client_sends_them(self) -> None:
        with pipeline(Echo) as run:
            array = np.arange(6, dtype=np.float16).reshape(2, 3)
            back = run.call({"array": array})["array"]
            assert back.dtype == np.float16
            assert (back == array).all()
            with pytest.raises(ValueError, match="set cannot be sent"):
                run.call({1})

    def test_declared_inputs(self) -> None:
        class Typed(Worker):
            inputs: Any = {"x": Tensor("FP32", [-1, 2])}  # noqa: RUF012  as users write it

            def forward(self, batch: list[Any]) -> list[Any]:
                return [each["x"].sum(axis=0) for each in batch]

        with pipeline(Typed) as run:
            assert run(json={"x": np.ones((3, 2))}).json() == [3, 3]
            wrong = run(json={"x": [[1, 2, 3]]})
            assert (wrong.status, wrong.code) == (422, "rejected")
            assert wrong.message == "expected 2 elements, got 3 - at `$.x[0]`"
            assert run(b"x", content_type="image/png").status == 415

    def test_what_plug_ins_know_of_a_request(self) -> None:
        class Knows(Worker):
            def forward(self, batch: list[Any], requests: list[RequestInfo]) -> list[Any]:
                (info,) = requests
                return [[info.request_id, info.headers, info.version, info.content_type]]

        with pipeline(Knows, version="3", headers=["X-User"]) as run:
            answer = run(
                b"x", content_type="a/b", headers={"x-user": "me", "x-else": ""}, request_id="r"
            )
        assert answer.json() == ["r", {"x-user": "me"}, "3", "a/b"]
        assert answer.headers["X-Model-Version"] == "3"
        assert answer.headers["X-Request-Id"] == "r"

    @pytest.mark.parametrize("body", [{"a": 1}, None, 5])
    def test_a_body_that_is_none(self, body: Any) -> None:
        with pipeline(Echo) as run:
            with pytest.raises(TypeError, match="say json="):
                run(body)
            with pytest.raises(TypeError, match="not both"):
                run(b"1", json=1)


class TestStreams:
    @pytest.mark.parametrize("first", [Waits, Echo])
    def test_values_one_by_one(self, first: type[Worker]) -> None:
        ended = []

        class Tells(Worker):
            def forward(self, batch: list[Any]) -> list[Any]:
                return [self.tell() for _ in batch]

            def tell(self) -> Iterator[int]:
                try:
                    yield from range(1_000_000_000)
                finally:
                    ended.append("closed")

        with pipeline(first, Tells) as run:
            values = run.stream(b'"go"')
            assert [next(values), next(values)] == [0, 1]
            assert not ended
            values.close()  # type: ignore[attr-defined]  # as generators have it
            assert ended == ["closed"]

    def test_of_an_event_loop(self) -> None:
        with pipeline(Waits) as run:
            assert run(b"3").values == [0, 1, 2]
            assert list(run.stream(b"3")) == [0, 1, 2]
            with pytest.raises(TypeError, match="no stream"):
                next(run.stream(b'"x"'))

    def test_an_async_iterator_of_a_plain_forward(self) -> None:
        class Plain(Worker):
            def forward(self, batch: list[Any]) -> list[Any]:
                return [self.tell() for _ in batch]

            async def tell(self) -> AsyncIterator[int]:
                await asyncio.sleep(0)
                yield 1

        with pipeline(Plain) as run:
            assert run(b"0").values == [1]

    def test_one_that_breaks(self) -> None:
        class Breaks(Worker):
            def forward(self, batch: list[Any]) -> list[Any]:
                return [self.tell(each) for each in batch]

            def tell(self, count: int) -> Iterator[int]:
                yield from range(count)
                raise Reject("no more", status=418)

        with pipeline(Breaks) as run:
            late, early = run(b"2"), run(b"0")
            assert (late.status, late.values, late.code) == (200, [0, 1], "rejected")
            assert (early.status, early.values, early.code) == (418, None, "rejected")
            with pytest.raises(AnswerError, match="no more"):
                list(run.stream(b"2"))


class TestLife:
    def test_in_a_test_that_has_an_event_loop(self) -> None:
        async def testing() -> Any:
            with pipeline(Waits, Echo) as run:
                return run(b'"x"').json()

        assert asyncio.run(testing()) == "x"

    def test_hooks_are_called_and_no_thread_is_left(self) -> None:
        threads = threading.active_count()
        with pipeline(Echo, Waits) as run:
            waits = run.plugins["waits"]
            assert threading.active_count() == threads + 1
        assert waits.torn
        assert threading.active_count() == threads

    def test_nothing_is_left_where_setup_fails(self) -> None:
        torn = []

        class Torn(Waits):
            async def teardown(self) -> None:
                torn.append(self.stage)

        class Broken(Worker):
            def setup(self) -> None:
                raise OSError("no model here")

            def forward(self, batch: list[Any]) -> list[Any]:
                return batch

        threads = threading.active_count()
        with pytest.raises(ChainError, match=r"setup raised OSError: no model here(.|\n)*in setup"):
            pipeline(Torn, Broken).__enter__()
        assert torn == [""]
        assert threading.active_count() == threads

    def test_a_warm_up_that_fails(self) -> None:
        class Short(Worker):
            max_batch_size = 4
            example = 0

            def forward(self, batch: list[Any]) -> list[Any]:
                return batch[:3]

        with pytest.raises(ChainError, match=r"Short\.forward returned 3 results for a batch of 4"):
            pipeline(Short).__enter__()

    def test_ctrl_c_is_no_fault_of_the_plug_in(self) -> None:
        class Long(Worker):
            def forward(self, batch: list[Any]) -> list[Any]:
                raise KeyboardInterrupt  # as it comes while a batch is run

        class Exits(Worker):
            def forward(self, batch: list[Any]) -> list[Any]:
                sys.exit(3)

        with pytest.raises(KeyboardInterrupt), pipeline(Long) as run:
            run(b"1")
        with pipeline(Exits) as run:
            assert "SystemExit: 3" in run(b"1").trace

    def test_the_log_is_as_it_was(self) -> None:
        before = list(logging.getLogger("millstream").handlers)
        with pytest.raises(RuntimeError), pipeline(Echo):
            raise RuntimeError
        assert logging.getLogger("millstream").handlers == before

    def test_what_observes_and_counts(self) -> None:
        class Observes(Worker):
            example = 1.0

            def setup(self) -> None:
                self.seen = self.metrics.counter("seen", "Items.")

            def forward(self, batch: list[Any]) -> list[Any]:
                self.seen.inc()
                self.observe("no name" if batch[0] == "bad" else "value", 1.0)
                return [self.empty(2).shape for _ in batch]

        with pipeline(Observes) as run:
            assert run(b"1").json() == [2]
            assert "ValueError" in run(b'"bad"').trace

    def test_it_is_light(self) -> None:
        code = (
            "import sys, millstream.testing\n"
            "print([name for name in ('aiohttp', 'torch', 'zmq', 'typer') if name in sys.modules])"
        )
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert ran.stdout.split() == [b"[]"]


class TestMistakes:
    """Each is told with its file and line."""

    ECHO = (
        "from millstream import Worker\n\n\n"
        "class {}(Worker):\n{}    def forward(self, batch):\n        return batch\n"
    )

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [*sys.path])
        for name in ("first", "second"):
            Path(f"{name}.py").write_text(self.ECHO.format(name.title(), ""))
        Path("p.toml").write_text('[pipelines.p]\nchain = [\n  "first",\n  "second",\n]\n')
        return tmp_path

    def told(self, *given: Any, name: str = "") -> list[str]:
        with pytest.raises(ChainError) as raised:
            pipeline(*given, name=name)
        return [str(each) for each in raised.value.findings]

    def test_a_file_with_its_scripts(self, folder: Path) -> None:
        with pipeline("p.toml", "second.py", "first.py") as run:
            assert list(run.plugins) == ["first", "second"]
            assert run(b"1").json() == 1

    def test_a_typo_in_a_stage_name(self, folder: Path) -> None:
        Path("p.toml").write_text('[pipelines.p]\nchain = [\n  "first",\n  "secnod",\n]\n')
        unknown, unserved = self.told("p.toml", "first.py", "second.py")
        assert unknown.startswith("second.py:4: Second serves the stage 'second'")
        assert "did you mean secnod?" in unknown
        assert unserved.startswith("p.toml:4: the chain has a stage 'secnod', which none")
        assert "did you mean second?" in unserved

    def test_two_classes_for_one_stage(self, folder: Path) -> None:
        Path("third.py").write_text(self.ECHO.format("Third", '    stage = "first"\n'))
        (told,) = self.told("p.toml", "first.py", "second.py", "third.py")
        assert told.startswith("first.py:4: First and Third (third.py:4) both serve the stage")
        (told,) = self.told(Echo, Echo)
        assert "both serve the stage 'echo'" in told

    def test_a_missing_package(self, folder: Path) -> None:
        Path("first.py").write_text("import os\n\nimport nosuchpackage.sub\n")
        (told,) = self.told("p.toml", "first.py", "second.py")
        assert told == (
            "first.py: cannot be loaded: ModuleNotFoundError: No module named 'nosuchpackage': "
            "pip install nosuchpackage (first.py:3)"
        )

    def test_a_syntax_error_and_an_error_at_once(self, folder: Path) -> None:
        Path("first.py").write_text("class First(:\n    pass\n")
        Path("second.py").write_text("\n1 / 0\n")
        syntax, error = self.told("p.toml", "first.py", "second.py")
        assert syntax.startswith("first.py: cannot be loaded: SyntaxError")
        assert "first.py, line 1" in syntax
        assert error.startswith("second.py: cannot be loaded: ZeroDivisionError")
        assert error.endswith("(second.py:2)")

    def test_a_script_that_is_not_there(self, folder: Path) -> None:
        (told,) = self.told("p.toml", "frist.py", "second.py")
        assert told.startswith("frist.py: there is no such file")

    def test_a_pipeline_file_that_is_none(self, folder: Path) -> None:
        Path("p.toml").write_text("[pipelines.p]\nchian = []\n")
        (told,) = self.told("p.toml", "first.py")
        assert "chian: no such key; did you mean chain?" in told

    def test_which_of_several_pipelines(self, folder: Path) -> None:
        Path("p.toml").write_text(
            '[pipelines.a]\nchain = ["first"]\n[pipelines.b]\nchain = ["second"]\n'
        )
        scripts = ("first.py", "second.py")
        assert "has several pipelines (a, b)" in self.told("p.toml", *scripts)[0]
        assert "there is no pipeline 'c'" in self.told("p.toml", *scripts, name="c")[0]
        with pipeline("p.toml", *scripts, name="b") as run:
            assert list(run.plugins) == ["second"]

    def test_what_is_no_worker(self, folder: Path) -> None:
        assert "int is no stage: no subclass of millstream.Worker" in self.told(int)[0]
        assert "there is no stage" in self.told()[0]

        class Predicts(Worker):
            def predict(self, batch: list[Any]) -> list[Any]:
                return batch

        assert "predict is never called" in self.told(Predicts)[0]
