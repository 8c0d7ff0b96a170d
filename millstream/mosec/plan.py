"""From routes and runtimes to a deployment: a pipeline for each chain, a role for each stage. Pure,
but for what it reads of the interpreter: the script, its arguments and its path.
"""

import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from millstream.local.mistakes import Mistake, caller
from millstream.local.plan import BROKER, GATEWAY, WORKER, Plan, Role
from millstream.local.toml import pipeline_file
from millstream.mosec import setting
from millstream.mosec.runtime import Runtime
from millstream.mosec.utils import ParseTarget
from millstream.mosec.worker import MOSEC_REF_TEMPLATE, SSEWorker

Routes = Mapping[str, Sequence[Runtime]]

_PLUGIN = Path(__file__).with_name("plugin.py")
_SETUP_S = 3600.0
"""MOSEC has no limit for it."""
_SPARE_S = 1.0
"""Beyond twice its time-out a `forward` does not come back: its worker is replaced."""
_STREAM_IDLE_S = 30.0
_LEAST_COMPRESSED = "32"
"""Bytes: MOSEC compresses what is larger."""


def make_plan(routes: Routes, options: Namespace) -> Plan:
    """What is to be started. Raises Mistake."""
    place = caller()
    chains = _chains(routes)
    timeout_s = options.timeout / 1000.0
    tables = {
        name: _table(endpoints, chain, options) for name, (endpoints, chain) in chains.items()
    }
    level = ("--log-level", options.log_level)
    gateway = ("--host", options.address, "--port", str(options.port))
    size = ("--max-body", str(options.max_request_size), "--listen-when-ready")
    compress = ("--compress", _LEAST_COMPRESSED) if options.compression else ()
    roles = [
        Role(name=GATEWAY, command=GATEWAY, options=(*gateway, *size, *compress, *level)),
        Role(name=BROKER, command=BROKER, options=level),
    ]
    for runtime in dict.fromkeys(each for chain in routes.values() for each in chain):
        roles += _roles(runtime, routes, timeout_s, level)
    return Plan(
        file=place.file,
        line=place.line,
        pipelines=pipeline_file(tables),
        chains={name: [each.name for each in chain] for name, (_, chain) in chains.items()},
        routes={name: endpoints for name, (endpoints, _) in chains.items()},
        roles=tuple(roles),
        host=options.address,
        port=options.port,
        uds="",
        broker="",
        drain_s=3.5,
    )


def _chains(routes: Routes) -> dict[str, tuple[list[str], Sequence[Runtime]]]:
    """A pipeline for each chain, by name: its routes, and its stages. Routes with the same stages
    share batches, too.
    """
    found: dict[tuple[str, ...], tuple[list[str], Sequence[Runtime]]] = {}
    for endpoint, chain in routes.items():
        names = tuple(runtime.name for runtime in chain)
        for name in names:
            if names.count(name) > 1:
                raise Mistake(f"{caller()}: {endpoint}: {name} is in it twice; make two Runtimes")
        for runtime in chain[:-1]:
            if issubclass(runtime.worker, SSEWorker):
                raise Mistake(
                    f"{caller()}: {endpoint}: {runtime.name} sends events, which the last stage "
                    "alone can"
                )
        found.setdefault(names, ([], chain))[0].append(endpoint)
    chains: dict[str, tuple[list[str], Sequence[Runtime]]] = {}
    for endpoints, chain in found.values():
        stem = re.sub(r"[^A-Za-z0-9_-]+", ".", endpoints[0]).strip(".")[:56] or "inference"
        name = stem
        while name in chains:
            name = f"{stem}.{len(chains) + 1}"
        chains[name] = endpoints, chain
    return chains


def _table(
    endpoints: Sequence[str], chain: Sequence[Runtime], options: Namespace
) -> dict[str, Any]:
    timeout_s = options.timeout / 1000.0
    return {
        "chain": [runtime.name for runtime in chain],
        "routes": list(endpoints),
        "timeout_s": timeout_s,
        "max_items": options.capacity,
        "stream_idle_s": max(_STREAM_IDLE_S, timeout_s),
        "mosec": {
            "namespace": options.namespace,
            "streams": issubclass(chain[-1].worker, SSEWorker),
            "openapi": json.dumps(generate_openapi(chain)),
        },
        "stages": {runtime.name: _stage(runtime, options) for runtime in chain},
    }


def _stage(runtime: Runtime, options: Namespace) -> dict[str, Any]:
    forward_s = 2.0 * _timeout_s(runtime, options.timeout / 1000.0) + _SPARE_S
    settings = {"forward_timeout_s": forward_s, "setup_timeout_s": _SETUP_S}
    if runtime.max_batch_size > 1:
        settings["max_wait_ms"] = runtime.max_wait_time or options.wait
    return settings


def _timeout_s(runtime: Runtime, default_s: float) -> float:
    return float(runtime.timeout_sec) if runtime.timeout_sec > 0 else default_s


# ------------------------------------------------------------------ roles


def _roles(
    runtime: Runtime, routes: Routes, timeout_s: float, level: tuple[str, ...]
) -> list[Role]:
    """One supervisor for all processes; or one for each where each has an environment."""
    if runtime.env is None:
        return [_role(runtime, routes, timeout_s, level, number=1, processes=runtime.num)]
    return [
        _role(runtime, routes, timeout_s, level, number=number, processes=1, env=env)
        for number, env in enumerate(runtime.env, 1)
    ]


def _role(
    runtime: Runtime,
    routes: Routes,
    timeout_s: float,
    level: tuple[str, ...],
    *,
    number: int,
    processes: int,
    env: Mapping[str, str] | None = None,
) -> Role:
    told = setting.encode(_setting(runtime, routes, timeout_s, number, env or {}))
    options = ("--stage", runtime.name, "--processes", str(processes), *level)
    return Role(
        name=runtime.name if env is None else f"{runtime.name}-{number}",
        command=WORKER,
        script=str(_PLUGIN),
        attribute="Plugin",
        stage=runtime.name,
        options=options,
        env={**(env or {}), setting.VARIABLE: told},
    )


def _setting(
    runtime: Runtime, routes: Routes, timeout_s: float, number: int, env: Mapping[str, str]
) -> setting.Setting:
    main = sys.modules["__main__"]
    script = getattr(main, "__file__", None)
    if not script:
        raise Mistake("a server must be made in a file, which its workers can load")
    cls = runtime.worker
    chains = [chain for chain in routes.values() if runtime in chain]
    visible = env.get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    return setting.Setting(
        script=os.path.abspath(script),
        package=getattr(main, "__package__", None) or "",
        module=cls.__module__,
        name=cls.__qualname__,
        argv=list(sys.argv),
        path=[os.path.abspath(entry) for entry in sys.path],
        stage=runtime.name,
        max_batch_size=runtime.max_batch_size,
        timeout_s=_timeout_s(runtime, timeout_s),
        worker_id=number,
        first=_how_often([chain[0] is runtime for chain in chains]),
        last=_how_often([chain[-1] is runtime for chain in chains]),
        devices=visible,
    )


def _how_often(places: Sequence[bool]) -> str:
    if all(places):
        return setting.ALWAYS
    return setting.SOMETIMES if any(places) else setting.NEVER


# ------------------------------------------------------------------ OpenAPI


def generate_openapi(chain: Sequence[Runtime]) -> dict[str, Any]:
    """What the first and the last class say of what they take and give."""
    first, last = chain[0].worker, chain[-1].worker
    taken, of_taken = first.get_forward_json_schema(ParseTarget.INPUT, MOSEC_REF_TEMPLATE)
    given, of_given = last.get_forward_json_schema(ParseTarget.RETURN, MOSEC_REF_TEMPLATE)
    found: dict[str, Any] = {"schemas": {**of_taken, **of_given}}
    if taken:
        found["request_body"] = _content("A request", first.resp_mime_type, taken)
    if given:
        found["responses"] = {"200": _content("Its result", last.resp_mime_type, given)}
    return found


def _content(words: str, mime: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {mime: {"schema": schema}}}
