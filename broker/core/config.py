"""What a deployment is told about its pipelines: frozen data, checked where it is read."""

from msgspec import Struct, field


class StageConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of one stage of one pipeline."""

    max_batch_size: int | None = None
    """Most items of one batch; a worker may announce less. None: whatever the worker announces."""
    max_wait_ms: float = 0.0
    """Longest hold to fill a batch while a worker is free; 0 never holds."""
    max_queue_items: int | None = None
    """Bound of this stage's queue. None: twice what its workers can hold."""
    forward_timeout_s: float = 30.0
    """For one call of forward; a worker that takes longer is killed and replaced."""
    setup_timeout_s: float = 600.0
    """From a worker's first HELLO until it is ready."""


class GuardConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a version is rolled back by itself: see `guard.py`."""

    min_requests: int = 50
    """Nothing is concluded from fewer, and no step of a promotion is over before as many."""
    error_margin: float = 0.005
    """By so much its share of failed requests may be above that of the stable version."""
    latency_ratio: float = 1.25
    latency_margin_ms: float = 1.0
    """The 95th percentile of its times may be so many times the stable one's, and so much more."""
    false_alarms: float = 0.01
    """The chance that a version which is as good is rolled back, however long it is watched."""
    agreement: float = 0.0
    """Of the answers of a shadow, the share that must agree with the stable version's, or it is no
    longer one; 0: none, since a new version is often made to answer otherwise."""
    watch_s: float = 600.0
    """So long a version that has taken over is still held against the one before."""

    @property
    def part(self) -> float:
        """Of the false alarms, what each of the tests may have that a version goes through."""
        return self.false_alarms / (4 if self.agreement else 3)


class ShadowConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the answers of two versions are compared: see `workers/comparing.py`."""

    compare: str = "close"
    """exact, close, top1, or plugin: by the plug-in's own function `compare(a, b)`."""
    rtol: float = 1e-5
    atol: float = 1e-8
    """Numbers are close where |a - b| <= atol + rtol * |a|, a being the stable version's."""
    key: str = ""
    """Of an answer that is an object, what is compared; "": all of it."""


class MosecConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What clients of MOSEC are shown at a pipeline's routes: see `gateway/mosec`."""

    namespace: str = "mosec_service"
    """What the names of its metrics begin with."""
    streams: bool = False
    """Whether it answers value by value: then failures, too, are told by an event."""
    openapi: str = ""
    """What its OpenAPI document says of the routes beyond their errors, as JSON."""


class PipelineConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of one pipeline."""

    chain: tuple[str, ...]
    """Names of the stages, first to last."""
    timeout_s: float = 10.0
    """Deadline of a request that brings none, and the longest that one may ask for."""
    max_items: int = 4096
    """Admitted and unanswered; beyond it 429."""
    max_bytes: int = 1 << 30
    """Every buffer held for this pipeline; beyond it 429."""
    attempts: int = 3
    """Most runs of one item in one stage, when workers die under it."""
    absent_s: float = 5.0
    """How long a stage may be without any supervisor before requests are refused."""
    stream_idle_s: float = 30.0
    """How long a stream that is not held back by its client may go without a further value."""
    headers: tuple[str, ...] = ()
    """Request headers that plug-ins get to see, in lower case."""
    routes: tuple[str, ...] = ()
    """Further paths at which gateways take its requests, beside /pipelines/NAME."""
    mosec: MosecConfig | None = None
    """Whether it answers at these routes as MOSEC does."""
    guard: GuardConfig | None = None
    """Whether, and when, a version that does worse is rolled back."""
    shadow: ShadowConfig = ShadowConfig()
    """How answers of a shadow are compared."""
    stages: dict[str, StageConfig] = field(default_factory=dict)
    """Per stage, where the defaults do not serve."""

    def stage(self, name: str) -> StageConfig:
        """The settings of a stage of the chain, defaults where the file says nothing."""
        return self.stages.get(name, _DEFAULT_STAGE)


_DEFAULT_STAGE = StageConfig()
