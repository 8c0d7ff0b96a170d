"""`Server`: workers appended one after the other, or runtimes by route; and run."""

import multiprocessing.process
import os
import signal
import subprocess
import sys
import threading
from typing import TypeAlias

from millstream.mosec.args import parse_arguments
from millstream.mosec.log import get_internal_logger, set_logger
from millstream.mosec.mistakes import give_up, mistakes_in
from millstream.mosec.runtime import Runtime
from millstream.mosec.setting import is_worker
from millstream.mosec.worker import Worker

GUARD_CHECK_INTERVAL = 0.1
"""Seconds between two looks at the daemons."""
MOSEC_RESERVED_ENDPOINTS = {"/", "/metrics", "/openapi"}

_Daemon: TypeAlias = "subprocess.Popen[bytes] | multiprocessing.process.BaseProcess"

has_run = False
"""Whether any server has been run in this process."""


class Server:
    """Reads the command line when it is made. (In a worker that imports the script it does
    nothing.)
    """

    def __init__(self) -> None:
        self._options = parse_arguments()
        if not is_worker():
            import logging  # noqa: PLC0415  the level's number alone

            set_logger(logging.getLevelName(self._options.log_level.upper()))
        self._runtimes: list[Runtime] = []
        self._routes: dict[str, list[Runtime]] = {}
        self._daemons: dict[str, _Daemon] = {}
        self._failed_daemon = ""

    def append_worker(  # noqa: PLR0917  as in MOSEC
        self,
        worker: type[Worker],
        num: int = 1,
        max_batch_size: int = 1,
        max_wait_time: int = 0,
        start_method: str = "spawn",
        env: list[dict[str, str]] | None = None,
        timeout: float = 0,
        route: str | list[str] = "/inference",
    ) -> None:
        """Add a stage to the end of a route, or of several, which then share its workers.

        `num` processes of the class run. With `max_batch_size` 1 `forward` gets single items, else
        lists. `max_wait_time`: the longest that a batch is held back to be filled, in milliseconds;
        0 leaves it to `--wait`. `env` has one dict of variables for each process. `timeout` of each
        call of `forward`, in seconds; 0 leaves it to `--timeout`. `start_method` makes no
        difference: processes are always fresh ones.
        """
        with mistakes_in("append_worker"):
            runtime = Runtime(
                worker, num, max_batch_size, max_wait_time, timeout, start_method, env
            )
            self._register_route(runtime, route)
            self._runtimes.append(runtime)
        if max_wait_time and max_batch_size == 1 and not is_worker():
            get_internal_logger().warning(
                "%s: max_wait_time has no effect without max_batch_size", runtime.name
            )

    def register_runtime(self, routes: dict[str, list[Runtime]]) -> None:
        """Add whole routes: each a list of stages, which several routes may share."""
        if self._runtimes:
            raise RuntimeError("register_runtime is for a server that has no worker yet")
        with mistakes_in("register_runtime"):
            for endpoint, runtimes in routes.items():
                for runtime in runtimes:
                    if not isinstance(runtime, Runtime):
                        raise ValueError(f"{endpoint}: {runtime!r:.80} is no Runtime")
                    self._register_route(runtime, endpoint)
                    if runtime not in self._runtimes:
                        self._runtimes.append(runtime)

    def _register_route(self, runtime: Runtime, route: str | list[str]) -> None:
        for endpoint in [route] if isinstance(route, str) else route:
            if endpoint in MOSEC_RESERVED_ENDPOINTS:
                raise ValueError(f"{endpoint!r} is reserved, try another one")
            self._routes.setdefault(endpoint, []).append(runtime)

    def register_daemon(self, name: str, proc: _Daemon) -> None:
        """Watch a process that the script has started: when one ends, so does the other."""
        with mistakes_in("register_daemon"):
            if not isinstance(name, str):
                raise ValueError("daemon name should be a string")
            if not isinstance(proc, multiprocessing.process.BaseProcess | subprocess.Popen):
                raise ValueError(f"{type(proc)} is not a process or subprocess")
        self._daemons[name] = proc

    def run(self) -> None:
        """Serve until Ctrl-C, SIGTERM, or the end of a daemon. Ends the script (SystemExit) where
        it cannot: 2 for what is wrong in it, 3 where a worker cannot be set up.
        """
        global has_run  # noqa: PLW0603  the command asks afterwards
        has_run = True
        if is_worker():
            return
        from millstream.mosec.plan import make_plan  # noqa: PLC0415  not for who only imports us

        with mistakes_in("run"):
            if not self._routes:
                raise ValueError("no worker is registered; append_worker(…) adds one")
            plan = make_plan(self._routes, self._options)
        if self._options.dry_run:
            from millstream.mosec.dry_run import dry_run  # noqa: PLC0415

            if code := dry_run(self._routes, plan):
                sys.exit(code)
            return
        from millstream.local.launch import serve_until_signalled  # noqa: PLC0415

        ended = threading.Event()
        if self._daemons:
            watch = threading.Thread(target=self._watch_daemons, args=(ended,), daemon=True)
            watch.start()
        try:
            code = serve_until_signalled(plan)
        finally:
            ended.set()
            self._end_daemons()
        if self._failed_daemon:
            give_up(self._failed_daemon)
        if code:
            sys.exit(code)

    def _end_daemons(self) -> None:
        """What was there for this server alone is not left behind."""
        for process in self._daemons.values():
            if _code_of(process) is None:
                process.terminate()

    def _watch_daemons(self, ended: threading.Event) -> None:
        while not ended.wait(GUARD_CHECK_INTERVAL):
            for name, process in self._daemons.items():
                code = _code_of(process)
                if code is not None:
                    self._failed_daemon = f"daemon {name!r} has ended with exit code {code}"
                    get_internal_logger().error("%s: so does the server", self._failed_daemon)
                    os.kill(os.getpid(), signal.SIGTERM)
                    return


def _code_of(process: _Daemon) -> int | None:
    """Its exit code, once it has ended."""
    return process.poll() if isinstance(process, subprocess.Popen) else process.exitcode
