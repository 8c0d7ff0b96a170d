"""`Runtime`: a class of workers, and how many of them run how."""

import re
from typing import Any

from millstream.mosec.env import validate_env, validate_float_ge, validate_int_ge
from millstream.mosec.mistakes import mistakes_in
from millstream.mosec.worker import Worker

NEW_PROCESS_METHOD = ("spawn", "fork")


class Runtime:
    """See `Server.append_worker` for what the parameters mean."""

    _stage_id: int = 0
    """How many there are."""

    def __init__(  # noqa: PLR0917  as in MOSEC
        self,
        worker: type[Worker],
        num: int = 1,
        max_batch_size: int = 1,
        max_wait_time: int = 0,
        timeout: float = 0.0,
        start_method: str = "spawn",
        env: list[dict[str, str]] | None = None,
    ) -> None:
        """What cannot be ends the script with one line, and exit code 2."""
        self.worker = worker
        self.num = num
        self.max_batch_size = max_batch_size
        self.max_wait_time = max_wait_time
        self.timeout_sec = timeout
        self.start_method = start_method
        self.env = env
        with mistakes_in("Runtime"):
            self._validate()
        Runtime._stage_id += 1
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", worker.__name__)[:50]
        self.name = f"{name}_{Runtime._stage_id}"
        """Unique: a class may serve several stages."""

    def _validate(self) -> None:
        worker: Any = self.worker
        if not (isinstance(worker, type) and issubclass(worker, Worker)):
            raise AssertionError(f"worker must be inherited from mosec.Worker, not {worker!r:.80}")
        lacking = getattr(worker, "__abstractmethods__", ())
        if lacking:
            raise AssertionError(f"{worker.__name__} has no {', '.join(sorted(lacking))}")
        if "<locals>" in worker.__qualname__:
            raise AssertionError(
                f"{worker.__qualname__} is defined in a function, where no worker process can find "
                "it: move it to the top level of its file"
            )
        validate_int_ge(self.num, "worker number")
        validate_env(self.env, self.num)
        validate_int_ge(self.max_batch_size, "maximum batch size")
        validate_int_ge(self.max_wait_time, "maximum wait time", 0)
        validate_float_ge(self.timeout_sec, "forward timeout", 0)
        if self.start_method not in NEW_PROCESS_METHOD:
            raise AssertionError(f"start method must be one of {NEW_PROCESS_METHOD}")

    def __repr__(self) -> str:
        return f"<Runtime {self.name}>"
