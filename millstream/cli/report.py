"""The broker's report as tables: which rows and columns, and how each cell reads."""

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from millstream.cli.tables import Table, duration, shortened


class StageReport(Struct):
    """One stage of one pipeline. Reports may grow: whatever is missing has a default."""

    queued: int = 0
    running: int = 0
    ready_workers: int = 0
    workers: int = 0
    max_batch_size: int = 0
    estimate_ms: dict[str, float] | None = None
    done: int = 0
    failed: int = 0
    reason: str = ""
    batch_cap: int = 0


class VersionStatus(Struct):
    version: str = ""
    state: str = ""
    detail: str = ""
    share: float = 0.0


class PromotionStatus(Struct):
    version: str = ""
    steps: list[float] = []
    step: int = 0
    every_s: float = 0.0
    elapsed_s: float = 0.0


class PendingStatus(Struct):
    what: str = ""
    waits_for: list[str] = []


class ShadowStatus(Struct):
    """`hindrance`: why it gets no copies; "" while it does."""

    version: str = ""
    hindrance: str = ""


class AgreementStatus(Struct):
    shadow: str = ""
    copies: int = 0
    compared: int = 0
    agreed: int = 0
    dropped: dict[str, int] = {}


class TrafficReport(Struct):
    """Where the requests of a pipeline go; of a pipeline without versions there is none."""

    follows: bool = True
    stable: str = ""
    canary: str = ""
    shadow: str = ""
    sticky: str = ""
    rejected: dict[str, str] = {}
    promotion: PromotionStatus | None = None
    pending: PendingStatus | None = None
    versions: list[VersionStatus] = []


class PipelineReport(Struct):
    chain: list[str] = []
    ready: bool = False
    reasons: list[str] = []
    items: int = 0
    bytes: int = 0
    max_items: int = 0
    max_bytes: int = 0
    versions: list[str] = []
    stages: dict[str, StageReport] = {}
    traffic: TrafficReport | None = None
    shadow: ShadowStatus | None = None
    agreements: list[AgreementStatus] = []


class WorkerStatus(Struct):
    id: str = ""
    stage: str = ""
    state: str = ""
    version: str = ""
    pid: int = 0
    host: str = ""
    index: int = 0
    device: str = ""
    running: int = 0
    batches: int = 0
    items: int = 0
    supervisor: str = ""


class GatewayStatus(Struct):
    id: str = ""
    host: str = ""
    pid: int = 0
    items: int = 0


class SupervisorStatus(Struct):
    id: str = ""
    stage: str = ""
    script: str = ""
    host: str = ""
    pid: int = 0
    workers: int = 0


class FindingStatus(Struct):
    """What is wrong, in words; `level` is error, warning or fine."""

    level: str = ""
    what: str = ""
    text: str = ""
    pipeline: str = ""
    stage: str = ""


class StatusReport(Struct):
    """What the broker answers to the question `status`."""

    epoch: int = 0
    uptime_s: float = 0.0
    draining: bool = False
    pipelines: dict[str, PipelineReport] = {}
    workers: list[WorkerStatus] = []
    supervisors: list[SupervisorStatus] = []
    gateways: list[GatewayStatus] = []
    traffic_trouble: str = ""
    findings: list[FindingStatus] = []


def parse(body: bytes) -> StatusReport:
    """Raises msgspec.MsgspecError where it is no report."""
    return msgspec.json.decode(body, type=StatusReport)


def tables(report: StatusReport, address: str) -> list[Table]:
    """The whole report: the broker, each pipeline, the workers, the supervisors, the gateways."""
    draining = ", draining" if report.draining else ""
    lines = [f"broker at {address}, up {duration(report.uptime_s)}{draining}"]
    if report.traffic_trouble:
        lines.append(f"  changes of the traffic are not kept: {report.traffic_trouble}")
    shown = [Table(lines)]
    if report.findings:
        shown.append(Table([finding.text for finding in report.findings]))
    shown += [_pipeline(name, pipeline) for name, pipeline in report.pipelines.items()]
    if report.workers:
        shown.append(_workers(report.workers))
    if report.supervisors:
        shown.append(_supervisors(report.supervisors))
    if report.gateways:
        shown.append(_gateways(report.gateways))
    return shown


def _pipeline(name: str, pipeline: PipelineReport) -> Table:
    lines = [
        f"pipeline {name}: {'ready' if pipeline.ready else 'not ready'}"
        f", {pipeline.items} of {pipeline.max_items} items"
        f", {_size(pipeline.bytes)} of {_size(pipeline.max_bytes)}"
        + (f", versions {', '.join(pipeline.versions)}" if any(pipeline.versions) else "")
    ]
    lines += [f"  {reason}" for reason in pipeline.reasons]
    lines += _traffic(pipeline.traffic) if pipeline.traffic is not None else []
    lines += _shadow(pipeline.shadow, pipeline.agreements) if pipeline.shadow is not None else []
    stages = [(stage, pipeline.stages.get(stage, StageReport())) for stage in pipeline.chain]
    return Table(
        lines,
        ("stage", "queue", "running", "ready", "batch", "t(b)", "done", "failed"),
        [
            (
                stage,
                str(about.queued),
                str(about.running),
                f"{about.ready_workers}/{about.workers}",
                _batch(about),
                _estimate(about.estimate_ms),
                str(about.done),
                str(about.failed),
            )
            for stage, about in stages
        ],
    )


def _traffic(traffic: TrafficReport) -> list[str]:
    """Who gets how much, and what is different from a version that just serves."""
    roles = {traffic.shadow: "shadow", traffic.canary: "canary"}
    said = [
        f"{each.version} {each.share:.3g} %" + (f" ({role})" if role else "")
        for each in traffic.versions
        if each.share or each.version == traffic.shadow
        for role in [roles.get(each.version, "")]
    ]
    rules = [f"sticky by {traffic.sticky}"] if traffic.sticky else []
    rules += ["the newest takes over"] if traffic.follows else []
    lines = ["; ".join([f"  traffic: {', '.join(said) or 'no version is ready'}", *rules])]
    lines += [
        ": ".join(filter(None, (f"  version {each.version} {each.state}", shortened(each.detail))))
        for each in traffic.versions
        if each.state != "ready" or each.detail
    ]
    lines += [
        ": ".join(filter(None, (f"  version {version} is rejected", shortened(why))))
        for version, why in traffic.rejected.items()
    ]
    if (walk := traffic.promotion) is not None:
        lines.append(
            f"  promoting {walk.version}: step {walk.step + 1} of {len(walk.steps)}"
            f", for {duration(walk.elapsed_s)} of {duration(walk.every_s)}"
        )
    if (waiting := traffic.pending) is not None:
        lines.append(f"  {waiting.what} waits for version {', '.join(waiting.waits_for)}")
    return lines


def _shadow(shadow: ShadowStatus, agreements: Sequence[AgreementStatus]) -> list[str]:
    """Why it gets no copies, and what has become of those that it got."""
    lines = []
    if shadow.hindrance:
        lines.append(f"  shadow {shadow.version} gets no copies: {shortened(shadow.hindrance)}")
    known = [each for each in agreements if each.shadow == shadow.version]
    copies, compared = sum(each.copies for each in known), sum(each.compared for each in known)
    dropped: Counter[str] = Counter()
    for each in known:
        dropped.update(each.dropped)
    if copies or dropped:
        said = [f"{copies} copies", f"{compared} compared"]
        if compared:
            said.append(f"{100 * sum(each.agreed for each in known) / compared:.4g} % agree")
        if dropped:
            reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.most_common())
            said.append(f"{dropped.total()} dropped ({reasons})")
        lines.append(f"  shadow {shadow.version}: {', '.join(said)}")
    return lines


def _batch(stage: StageReport) -> str:
    """How many items a full batch has; a range where that differs from worker to worker."""
    most, least = stage.max_batch_size, stage.batch_cap
    return f"{least}-{most}" if 0 < least < most else str(most or "-")


def _workers(workers: Sequence[WorkerStatus]) -> Table:
    ordered = sorted(workers, key=lambda worker: (worker.stage, worker.host, worker.pid))
    return Table(
        ["workers"],
        ("stage", "state", "version", "device", "host", "pid", "running", "batches", "items"),
        [
            (
                worker.stage,
                worker.state,
                worker.version or "-",
                worker.device or "-",
                worker.host,
                str(worker.pid),
                str(worker.running),
                str(worker.batches),
                str(worker.items),
            )
            for worker in ordered
        ],
    )


def _supervisors(supervisors: Sequence[SupervisorStatus]) -> Table:
    return Table(
        ["supervisors"],
        ("stage", "script", "host", "pid", "workers"),
        [
            (each.stage or "-", each.script, each.host, str(each.pid), str(each.workers))
            for each in supervisors
        ],
    )


def _gateways(gateways: Sequence[GatewayStatus]) -> Table:
    return Table(
        ["gateways"],
        ("host", "pid", "items"),
        [(gateway.host, str(gateway.pid), str(gateway.items)) for gateway in gateways],
    )


def _estimate(estimate: dict[str, float] | None) -> str:
    """t(b) = a + c·b, in milliseconds."""
    if estimate is None:
        return "-"
    return f"{estimate.get('a', 0.0):.3g} + {estimate.get('c', 0.0):.3g}·b ms"


def _size(size_bytes: int) -> str:
    if size_bytes < 1024:
        return f"{size_bytes} B"
    amount = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024 or unit == "GiB":
            break
    return f"{amount:.3g} {unit}" if amount < 1000 else f"{amount:.0f} {unit}"
