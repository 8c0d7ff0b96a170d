"""What one `millstream worker` command was told: frozen data, made once."""

from msgspec import Struct

from workers.policy import DEFAULT


class WorkerOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of what a supervisor and its workers need to know."""

    script: str
    """Path of the plug-in's file."""
    class_name: str = ""
    """Which class of it; "" means the only one there."""
    pipeline: str = ""
    """The pipeline to serve in; "" means every one that has a stage of this name."""
    stage: str = ""
    """The stage to serve; "" leaves it to the class."""
    processes: int = 1
    """How many worker processes to keep alive."""
    device: str = "auto"
    """auto, cpu, cuda, or cuda:0,1."""
    version: str = ""
    """Which release of the model these workers serve."""
    broker: str
    """The broker's address."""
    keys: str = ""
    """The folder of keys for a broker that wants them; "" means none."""
    model_dir: str = ""
    """The folder of the model's files; "" means `model` beside the script."""
    models: str = ""
    """A model repository, which brings version and model_dir along; "" means none."""
    versions: str = DEFAULT
    """Which versions of it to load: latest:N, all, or specific:2,5."""
    keep_warm_s: float = 600.0
    """How long the version that was loaded before stays so when it is not needed any more."""
    arena_bytes: int | None = None
    """Most shared memory that each process may own; None is a share of /dev/shm, 0 none at all."""
    max_batches: int | None = None
    """A worker is recycled after so many; None is never."""
    max_age_s: float | None = None
    """… after it has been ready for so long."""
    max_rss_bytes: int | None = None
    """… when it has more than this in memory, shared memory not counted."""
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    """Where the supervisor serves its metrics, or at the next port that is free; None: nowhere."""
