"""What the broker says it serves, prepared for use per request: routes, templates, readiness.

Pure. Built anew from each `Catalog`, never changed.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from broker.payload.signature import UNDECLARED, Declared, Method, decode_signature
from broker.wire.errors import ErrorCode
from broker.wire.messages import Catalog, Failure, MosecInfo, PipelineInfo
from gateway.oip.known import KnownRequests
from gateway.sticky import Sticky

DEFAULT_TIMEOUT_S = 10.0
"""Deadline of a request that came before any catalog: the default of pipeline files."""


STABLE = "stable"
"""The label of the version that answers when none is named."""


class PipelineView:
    """One pipeline, with what a request for it needs at hand."""

    __slots__ = (
        "_templates", "headers", "inputs", "known", "labels", "methods", "mosec", "name",
        "outputs", "routes", "stages", "states", "sticky", "streams", "timeout_s", "versions",
    )  # fmt: skip

    def __init__(self, info: PipelineInfo) -> None:
        self.name = info.name
        self.timeout_s = info.timeout_s
        self.headers = tuple(name.lower() for name in info.headers)
        self.stages = info.stages
        self.versions = info.versions
        self.labels = info.labels
        self.routes = info.routes
        self.mosec: MosecInfo | None = info.mosec
        self.states = info.states
        self.sticky = Sticky(info.name, info.sticky) if info.sticky else None
        self.inputs, self.outputs, self.methods, self.streams = _declared(info)
        self.known = KnownRequests()
        self._templates = _timing_templates([stage.name for stage in info.stages])

    def version_of(self, name: str) -> str:
        """The version that a request means: by its own name, or else by a label."""
        return name if name in self.versions else self.labels.get(name, name)

    def server_timing(self, spans: Sequence[float]) -> str:
        """The Server-Timing value: `spans` is queue and run of each stage that ran, in seconds."""
        template = self._templates.get(len(spans))
        if template and len(spans) == 2:  # one stage: without a loop
            return template % (spans[0] * 1000.0, spans[1] * 1000.0)
        return template % tuple([span * 1000.0 for span in spans]) if template else ""

    def reasons(self) -> list[str]:
        """Why it is not ready, one line per stage concerned; empty while it is."""
        return [
            f"{self.name}/{stage.name}: {stage.reason}" for stage in self.stages if stage.reason
        ]

    def lack_of_tensors(self) -> Failure | None:
        """Why a protocol of tensors cannot be spoken with it; None where it can."""
        if self.inputs.tensors and self.outputs.tensors:
            return None
        is_input = not self.inputs.tensors
        side, declared = ("inputs", self.inputs) if is_input else ("outputs", self.outputs)
        stage = self.stages[0 if is_input else -1]
        if not declared.schema and not stage.workers:
            why = f"{self.name}/{stage.name}: no worker has said yet what its {side} are"
            return Failure(ErrorCode.NOT_READY, why, retry_after_s=1.0)
        return Failure(
            ErrorCode.BAD_REQUEST,
            f"pipeline {self.name!r} declares no tensors as {side} of its stage {stage.name!r}, "
            f'which this protocol needs: its plug-in has no {side} = {{"name": Tensor(...)}}. '
            f"POST /pipelines/{self.name} runs it as it is",
        )

    def take_over(self, before: "PipelineView") -> None:
        """While the workers of a stage are away, what they have declared still holds."""
        if not self.stages or not before.stages:
            return
        if not self.stages[0].workers:
            self.inputs = before.inputs
        if not self.stages[-1].workers:
            self.outputs, self.methods = before.outputs, before.methods
            self.streams = before.streams

    def labelled(self, label: str) -> str | None:
        """The version that a label stands for, "" for whichever answers when none is named. None:
        there is no such label."""
        found = self.labels.get(label)
        return "" if found is None and label == STABLE else found

    def describe(self) -> dict[str, Any]:
        """The pipeline for `GET /pipelines`."""
        return {
            "name": self.name,
            "ready": not any(stage.reason for stage in self.stages),
            "chain": [stage.name for stage in self.stages],
            "versions": self.versions,
            "traffic": [
                {"version": each.name, "state": each.state, "share": each.share}
                for each in self.states
            ],
            "labels": self.labels,
            "timeout_s": self.timeout_s,
            "inputs": _description(self.inputs),
            "outputs": _description(self.outputs),
            "stages": [
                {
                    "name": stage.name,
                    "ready": not stage.reason,
                    "reason": stage.reason,
                    "workers": stage.workers,
                    "ready_workers": stage.ready_workers,
                    "max_batch_size": stage.max_batch_size,
                    "versions": stage.versions,
                }
                for stage in self.stages
            ],
        }


class CatalogView:
    """Every pipeline by name, and the request targets that name one, ready to look up: `targets`
    natively, `models` in the Open Inference Protocol, `mosec` as MOSEC answers."""

    __slots__ = ("draining", "models", "mosec", "pipelines", "single", "targets")

    def __init__(self, catalog: Catalog, before: "CatalogView | None" = None) -> None:
        """`before` is the view that this one takes the place of."""
        self.draining = catalog.draining
        self.pipelines = {info.name: PipelineView(info) for info in catalog.pipelines}
        for name, view in before.pipelines.items() if before is not None else ():
            if name in self.pipelines:
                self.pipelines[name].take_over(view)
        self.single = next(iter(self.pipelines.values())) if len(self.pipelines) == 1 else None
        self.targets: dict[str | None, PipelineView] = {
            f"/pipelines/{quote(name)}": view for name, view in self.pipelines.items()
        }
        if self.single is not None:
            self.targets["/inference"] = self.single
        self.models: dict[str | None, PipelineView] = {
            f"/v2/models/{quote(n)}/infer": view for n, view in self.pipelines.items()
        }
        self.mosec: dict[str | None, PipelineView] = {}
        self._add_routes()

    def _add_routes(self) -> None:
        """What a pipeline's own settings say goes before what follows from its name."""
        for view in self.pipelines.values():
            mine = self.targets if view.mosec is None else self.mosec
            for route in view.routes:
                self.targets.pop(route, None)
                self.models.pop(route, None)
                mine[route] = view

    def reasons(self) -> list[str]:
        """Why not everything is ready; empty while all is."""
        if not self.pipelines:
            return ["no pipeline is served"]
        return [reason for view in self.pipelines.values() for reason in view.reasons()]


def _declared(info: PipelineInfo) -> tuple[Declared, Declared, list[Method], bool]:
    """What goes in at the first stage, and what comes out of the last, how to ask for it, and
    whether it comes value by value."""
    if not info.stages:
        return UNDECLARED.inputs, UNDECLARED.outputs, UNDECLARED.methods, UNDECLARED.streams
    inputs = decode_signature(info.stages[0].signature).inputs
    last = decode_signature(info.stages[-1].signature)
    return inputs, last.outputs, last.methods, last.streams


def _description(declared: Declared) -> Any:
    """For people: the tensors, or the schema of objects; None where nothing is declared."""
    if declared.schema:
        return msgspec.Raw(declared.schema)
    if not declared.tensors:
        return None
    return [
        {"name": spec.name, "datatype": spec.datatype, "shape": spec.shape}
        for spec in declared.tensors
    ]


def _timing_templates(chain: list[str]) -> dict[int, str]:
    """By the number of spans: a request that was answered early ran through fewer stages."""
    parts: list[str] = []
    templates = {}
    for name in chain:
        token = _token(name)
        parts.append(f"{token}-queue;dur=%.3f, {token}-run;dur=%.3f")
        templates[2 * len(parts)] = ", ".join(parts)
    return templates


def _token(name: str) -> str:
    """A stage's name as an HTTP token, safe in a %-template."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
