"""Goes from stage to stage: sets each up, runs it with what the one before made, and times it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.payload import tensor_arrays
from broker.wire.messages import Blob, Failure, Outcome
from millstream.advise.model import StageModel
from millstream.chain.complaints import Complaints
from millstream.chain.findings import ChainError, place_of_hook
from millstream.chain.parts import Parts
from millstream.chain.run import body_payload
from millstream.chain.stage import Stage
from millstream.check import items
from millstream.check.items import described
from millstream.check.notes import Notes, forward_of, name_of
from millstream.check.report import Asked, StageReport
from millstream.check.timing import fit, measure, sizes_to
from millstream.check.trial import CLOSE, Bad, Sample, Trial
from workers import comparing
from workers.execute import Done

_MOST_SHOWN = 60


class Walk:
    """See the module. What was found stands in `notes`, in the order of the stages."""

    def __init__(self, parts: Parts, asked: Asked, tell: Callable[[str], None]) -> None:
        """`tell` is told what begins."""
        self._asked = asked
        self._tell = tell
        self._complaints = Complaints(is_alone=True)
        self.notes = Notes()
        for warning in parts.warnings:
            self.notes.warn("", warning)
        self.stages = [Stage(part) for part in parts.parts]
        self.reports = [
            StageReport(stage=stage.name, plugin=name_of(stage), place=stage.part.place)
            for stage in self.stages
        ]

    def go(self) -> None:
        """All of it; raises nothing that a plug-in raises."""
        try:
            with self._complaints:
                sample: Sample | None = None
                for number in range(len(self.stages)):
                    sample = self._visit(number, sample)
        finally:
            self._close()

    def _close(self) -> None:
        for stage in self.stages:
            self._tell(f"the teardown of {stage.name}")
            try:
                stage.close()
            except Exception as error:
                where = place_of_hook(type(stage.plugin), "teardown")
                what = f"{name_of(stage)}.teardown raised {type(error).__name__}: {error}"
                self.notes.add(where, what)

    # -------------------------------------------------------------- one stage

    def _visit(self, number: int, before: Sample | None) -> Sample | None:
        """Returns what the next stage is to be run with; None where nobody knows."""
        stage, report = self.stages[number], self.reports[number]
        try:
            self._tell(f"the setup of {stage.name} ({report.place})")
            stage.set_up()
            report.max_batch_size = stage.cap
            self._tell(f"the warm-up of {stage.name} ({report.place})")
            stage.warm_up()
        except ChainError as error:
            self.notes.findings += error.findings
            return None
        self._tell(f"{stage.name}.forward ({report.place})")
        trial = Trial(stage, first=number == 0, last=number == len(self.stages) - 1)
        self._compare(number, trial, before)
        sample = before or self._own_sample(number)
        if sample is None:
            return None
        is_body = trial.is_first and sample.payload is not None
        report.takes = sample.content_type or "JSON" if is_body else described(trial.opened(sample))
        passed = self._run_alone(trial, report, sample)
        if passed is None:
            return None
        if self._run_together(trial, sample):
            self._compare_company(trial, sample, *passed)
            self._tell(f"timing {stage.name} ({report.place})")
            self._time(trial, report, sample)
        outcome = passed[1]
        if trial.is_last or not isinstance(outcome, bytes | Blob):
            return None
        return Sample(f"what {name_of(stage)} ({forward_of(stage)}) returned", outcome)

    def _own_sample(self, number: int) -> Sample | None:
        """What is known of a stage whose predecessor gave nothing."""
        stage = self.stages[number]
        example, inputs = stage.hooks.example, stage.shape.inputs
        if number == 0 and self._asked.inputs:
            return self._request(self._asked.inputs[0])
        if example is not None:
            return Sample("its own example", None, example)
        if number == 0 and isinstance(inputs, tuple):
            return Sample("zeros, as its inputs are declared", None, items.zeros_of(inputs))
        todo = "set self.example in setup: one item, as forward sees it"
        if number == 0:
            todo += "; or give a request: --input FILE [--content-type TYPE]"
        what = f"{name_of(stage)} was not run: there is no item to run it with"
        self.notes.warn(stage.part.place, what, todo)
        return None

    def _request(self, path: str) -> Sample:
        body = body_payload(Path(path).read_bytes())
        return Sample(path, body, None, self._asked.content_type)

    # -------------------------------------------------------------- from stage to stage

    def _compare(self, number: int, trial: Trial, before: Sample | None) -> None:
        """What the stage before declares to give, and has given, with what this one takes."""
        if number == 0:
            return
        giver, taker = self.stages[number - 1], self.stages[number]
        outputs, inputs = giver.part.shape.outputs, taker.shape.inputs
        example = taker.hooks.example
        takes_tensors = isinstance(inputs, tuple)
        if takes_tensors and isinstance(outputs, tuple):
            wants = "declares as its inputs"
            for each in items.between_specs(outputs, inputs):
                self.notes.differ(giver, taker, each, gives="declares", wants=wants)
        if before is None:
            return
        item = trial.opened(before)
        if takes_tensors:
            wants = "declares as its inputs"
            for each in items.from_tensors(item, inputs):
                self.notes.differ(giver, taker, each, gives="returns", wants=wants)
        elif example is not None:
            for each in items.from_example(item, example):
                self.notes.differ(giver, taker, each, gives="returns", wants="has as its example")

    # -------------------------------------------------------------- runs

    def _bads(self, outcomes: list[Outcome]) -> list[Bad]:
        return [
            Bad(outcome, self._complaints.about(outcome.error_id))
            for outcome in outcomes
            if isinstance(outcome, Failure)
        ]

    def _run_alone(
        self, trial: Trial, report: StageReport, sample: Sample
    ) -> tuple[Done, Outcome] | None:
        done, outcomes = trial.run([sample])
        bads = self._bads(outcomes)
        if done.streams:
            values, broken = trial.stream_values(done)
            report.gives = f"a stream ({len(values)} values were taken)"
            bads += self._bads([broken] if broken is not None else [])
        if bads:
            self.notes.bad(trial.stage, bads[0], sample, 1)
            return None
        (outcome,) = outcomes
        if not done.streams:
            report.gives = _given(trial, outcome, done)
            self._try_outputs(trial, sample, done, outcome)
        return done, outcome

    def _try_outputs(self, trial: Trial, sample: Sample, done: Done, outcome: Outcome) -> None:
        """A last stage that declares outputs is asked for them; another one's are looked at."""
        stage = trial.stage
        outputs = stage.shape.outputs
        if not isinstance(outputs, tuple):
            return
        if trial.is_last:
            for bad in self._bads(trial.as_tensors(sample)):
                self.notes.bad(stage, bad, sample, 1)
            return
        try:
            tensor_arrays.parts_of_result(trial.value(outcome, done), outputs)
        except tensor_arrays.WrongOutput as error:
            what = f"{name_of(stage)}: {error}"
            self.notes.add(forward_of(stage), what, "correct its outputs, or the result")

    def _run_together(self, trial: Trial, sample: Sample) -> bool:
        """Batches of copies; whether all went well."""
        cap = trial.stage.cap
        for size in sorted({2, cap}):
            if not 1 < size <= cap:
                continue
            done, outcomes = trial.run([sample] * size)
            for stream in trial.open_streams(done):
                trial.stage.end(stream)
            for bad in self._bads(outcomes):
                self.notes.bad(trial.stage, bad, sample, size)
                return False
        return True

    def _compare_company(self, trial: Trial, sample: Sample, done: Done, outcome: Outcome) -> None:
        """Whether a result depends on who else is in the batch."""
        stage = trial.stage
        if stage.cap == 1 or done.streams:
            return
        expected = trial.value(outcome, done)
        again, (same,) = trial.run([sample])
        if not _agree(expected, trial.value(same, again)):
            return  # drawn by chance: nothing can be said
        mixed = self._mixed(trial, sample)
        done, outcomes = trial.run(mixed)
        for other in (out for out, each in zip(outcomes, mixed, strict=True) if each is sample):
            if isinstance(other, Failure):
                return  # of what was made up for company it may complain
            if not _agree(expected, got := trial.value(other, done)):
                self.notes.warn(
                    forward_of(stage),
                    f"{name_of(stage)}.forward gives another result in a batch of {len(mixed)} "
                    f"than alone: {_short(got)}, not {_short(expected)}",
                    "what is reckoned over a batch must not touch its items, or set "
                    "max_batch_size = 1",
                )
                return

    def _mixed(self, trial: Trial, sample: Sample) -> list[Sample]:
        """The sample, and in its company what is like it, or else copies."""
        cap = trial.stage.cap
        if trial.is_first and sample.payload is not None:
            others = [self._request(path) for path in self._asked.inputs[1:]]
        else:
            others = trial.companions(sample, items.companion)
        if not others:
            return [sample] * cap
        return [sample if at % 2 == 0 else others[at // 2 % len(others)] for at in range(cap)]

    def _time(self, trial: Trial, report: StageReport, sample: Sample) -> None:
        stage = trial.stage
        budget_s = self._asked.seconds / len(self.stages)
        measured = measure(lambda size: trial.times(sample, size), sizes_to(stage.cap), budget_s)
        report.timings = measured.timings
        if not measured.calls_s:
            return
        fitted = fit(measured.calls_s)
        report.model = StageModel(
            name=stage.name,
            a_s=fitted.a_s,
            c_s=fitted.c_s,
            spread=fitted.spread,
            cap=stage.cap,
            concurrency=stage.shape.concurrency,
            repeatable=stage.shape.repeatable,
        )


def _given(trial: Trial, outcome: Outcome, done: Done) -> str:
    """What a result is, in words."""
    if not isinstance(outcome, bytes | Blob):
        return ""
    if not trial.is_last:
        return described(trial.value(outcome, done))
    own = outcome.content_type if isinstance(outcome, Blob) else ""
    return f"{own or done.content_type or 'JSON'}, {len(outcome)} bytes"


def _agree(one: Any, other: Any) -> bool:
    try:
        return comparing.agree(one, other, CLOSE)
    except Exception:  # of what cannot be compared nothing is said
        return True


def _short(value: Any) -> str:
    text = comparing.shown(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
