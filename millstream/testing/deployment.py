"""`deployment`: the same pipeline as real processes, on a free port of this host."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from broker.config import ConfigError, load_pipelines
from millstream.chain.findings import ChainError, Finding
from millstream.chain.parts import Given, app_in, declared, is_pipeline_file, recorded
from millstream.chain.scripts import split
from millstream.local.declare import Pipeline, is_stage
from millstream.local.deployment import Deployment as Processes
from millstream.local.deployment import DeploymentError, start
from millstream.local.mistakes import Mistake, Place, caller
from millstream.local.options import Options, variable
from millstream.local.plan import Plan, ScriptOf, make_plan, plan_of_files

if TYPE_CHECKING:
    from millstream.client import Client

READY_S = 120.0
_OWN = "MILLSTREAM_"
_LOG = "MILLSTREAM_LOG_"


def deployment(
    *stages: Given,
    name: str = "pipeline",
    ready_s: float = READY_S,
    env: Mapping[str, str] | None = None,
    **options: Unpack[Options],
) -> "Deployment":
    """Broker, gateway and workers for these, which are given as to `pipeline`; and the options that
    `serve` takes.

    `name` is that of a pipeline which has none. `env` is added to the environment of all processes;
    variables of Millstream that are set around them do not count. They start when it is entered,
    which takes `ready_s` at the most, and none is left in the end. Raises ChainError for what
    cannot be started.
    """
    place = caller()
    environ = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(_OWN) or key.startswith(_LOG)
    }
    chosen: dict[str, Any] = {"port": 0, **options}
    try:
        if app := app_in(stages):
            environ |= _variables(chosen)  # which go before what the script says
            plan = recorded(app, environ)
        else:
            plan = _plan(stages, name, chosen, environ, place)
    except (Mistake, ConfigError) as mistake:
        raise ChainError([Finding("", str(mistake))]) from None
    return Deployment(plan, {**environ, **(env or {})}, ready_s)


def _plan(
    stages: Sequence[Given],
    name: str,
    options: Mapping[str, Any],
    environ: Mapping[str, str],
    place: Place,
) -> Plan:
    if any(isinstance(each, Pipeline) for each in stages):
        return make_plan(declared(stages, place), options, environ, place)
    if all(map(is_stage, stages)):
        chain: Any = stages
        return make_plan([Pipeline(name, chain)], options, environ, place)
    files = [os.fspath(each) for each in stages if is_pipeline_file(each)]
    if not files:
        raise Mistake(f"{place}: scripts need a pipeline file, which says in which order they come")
    scripts = []
    for each in stages:
        if is_pipeline_file(each):
            continue
        if not isinstance(each, str | os.PathLike):
            raise Mistake(f"{place}: beside a pipeline file there are scripts, not {each!r:.80}")
        path, class_name = split(os.fspath(each))
        scripts.append(ScriptOf(os.path.abspath(path), class_name))
    chains = {key: list(config.chain) for key, config in load_pipelines(files).items()}
    text = "\n".join(Path(file).read_text() for file in files)
    return plan_of_files(text, chains, scripts, options=options, environ=environ, place=place)


def _variables(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as the environment has them."""
    return {
        variable(name): str(int(value)) if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if value is not None
    }


class Deployment:
    """Running processes, while it is entered. See `deployment`."""

    def __init__(self, plan: Plan, environ: Mapping[str, str], ready_s: float) -> None:
        self.plan = plan
        self._environ = environ
        self._ready_s = ready_s
        self._processes: Processes | None = None
        self._client: Client | None = None

    def __enter__(self) -> Self:
        """Until every stage is ready. Raises DeploymentError where that will not be, and says what
        the processes have written.
        """
        self._processes = processes = start(self.plan, self._environ)
        try:
            processes.wait_ready(self._ready_s)
        except DeploymentError as error:
            logs = processes.logs()
            self._end(processes)
            if logs in str(error):
                raise
            raise DeploymentError(f"{error}\n{logs}", code=error.code) from None
        except BaseException:
            self._end(processes)
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Drains, and ends all. A test that has failed sees what the processes have written."""
        processes = self._running
        if exc is not None:
            sys.stderr.write(f"{processes.logs()}\n")
        if self._client is not None:
            self._client.close()
        self._end(processes)

    def _end(self, processes: Processes) -> None:
        self._processes = None
        try:
            processes.stop()
        except BaseException:  # Ctrl-C once more
            processes.kill()
            raise

    @property
    def _running(self) -> Processes:
        if self._processes is None:
            raise RuntimeError("the deployment is not running: use it in a with block")
        return self._processes

    @property
    def url(self) -> str:
        """Where the gateway answers."""
        return self._running.url

    @property
    def broker(self) -> str:
        """The broker's address, for commands such as `millstream status --broker`."""
        return self._running.broker

    @property
    def client(self) -> "Client":
        """A `millstream.Client` of this gateway: `mill.client.call("digits", array)`."""
        if self._client is None:
            from millstream.client import Client  # noqa: PLC0415  for who wants one

            self._client = Client(self.url)
        return self._client

    def logs(self, lines: int = 40) -> str:
        """The last lines that each process has written."""
        return self._running.logs(lines)
