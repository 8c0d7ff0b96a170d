"""What is asked of a check, and what it tells: both travel as JSON between command and child."""

from msgspec import Struct

from millstream.advise.model import StageModel
from millstream.advise.search import Goal
from millstream.advise.simulation import Outcome
from millstream.chain.findings import Finding


class Asked(Struct, frozen=True, kw_only=True):
    """`targets` are scripts and pipeline files. `visible`: CUDA_VISIBLE_DEVICES, None as it is.
    `rate_per_s` 0: nothing is reckoned.
    """

    targets: list[str]
    pipeline: str = ""
    inputs: list[str] = []
    content_type: str = ""
    device: str = "cpu"
    visible: str | None = None
    version: str = ""
    model_dir: str = ""
    seconds: float = 5.0
    rate_per_s: float = 0.0
    slo_s: float = 0.1
    share: float = 0.99


class Timing(Struct, frozen=True):
    """Calls with a batch of `size`: the median, and how much of the processors one takes."""

    size: int
    median_s: float
    cpu_s: float
    calls: int


class StageReport(Struct, kw_only=True):
    """One stage. `takes` and `gives` are descriptions, "" where it was not run."""

    stage: str
    plugin: str
    place: str
    max_batch_size: int = 1
    takes: str = ""
    gives: str = ""
    timings: list[Timing] = []
    model: StageModel | None = None
    """t(b) = a + c·b, once it was timed."""


class Load(Struct, kw_only=True):
    """What a load needs. `cores`: that are busy with plug-ins on average; `has_cores`: that this
    machine lets us use.
    """

    goal: Goal
    stages: list[StageModel]
    outcome: Outcome
    doubtful: Outcome
    cores: float
    has_cores: int


class Report(Struct, kw_only=True, tag="report"):
    """All of it."""

    pipeline: str
    stages: list[StageReport] = []
    findings: list[Finding] = []
    load: Load | None = None


class Progress(Struct, tag="progress"):
    """What begins now: where the child dies, it was this."""

    doing: str
