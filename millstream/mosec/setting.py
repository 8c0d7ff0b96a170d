"""What a worker process is told by the script that started it, as one environment variable."""

import os

import msgspec
from msgspec import Struct

VARIABLE = "MILLSTREAM_MOSEC"
ALWAYS, NEVER, SOMETIMES = "always", "never", "sometimes"


class Setting(Struct, frozen=True, kw_only=True):
    """Which class to run, and how."""

    script: str
    """The path of the script that made the server."""
    package: str = ""
    """The package that it was run in (`python -m`); "" for none."""
    module: str
    """Where the class is defined: "__main__" for the script itself."""
    name: str
    argv: list[str]
    path: list[str]
    """The module search path of the script."""
    stage: str
    max_batch_size: int
    timeout_s: float
    worker_id: int
    """Of the supervisor's first process; those after it count on."""
    first: str
    last: str
    """Of the routes that it is in: whether it is their first stage, and their last."""
    devices: str | None
    """CUDA_VISIBLE_DEVICES as the script had it: a class of MOSEC's chooses by itself."""


def encode(setting: Setting) -> str:
    """As the value of the variable."""
    return msgspec.json.encode(setting).decode()


def decode(text: str) -> Setting:
    """The reverse. Raises msgspec.DecodeError."""
    return msgspec.json.decode(text, type=Setting)


def of_this_process() -> Setting:
    """What this worker was told. Raises RuntimeError where it was not started by a script."""
    text = os.environ.get(VARIABLE)
    if not text:
        raise RuntimeError(f"{VARIABLE} is not set: this is started by millstream.mosec alone")
    return decode(text)


def is_worker() -> bool:
    """Whether this process is a worker that imports the script."""
    return VARIABLE in os.environ
