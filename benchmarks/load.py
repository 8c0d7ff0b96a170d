"""Runs wrk, and reads what it prints.

Knows nothing of servers or workloads. `parse` is pure; a measurement with any fault in it is no
measurement, and says so.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SPARE_S = 30.0
# Longer than any server of the comparison takes to answer; what wrk would count as an error by
# itself (2 s) can be the queue before a slow server.
TIMEOUT_S = 20

_UNITS_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 60e3, "h": 3600e3}
_REQUESTS = re.compile(r"^\s*(\d+) requests in ", re.MULTILINE)
_RATE = re.compile(r"^Requests/sec:\s*([\d.]+)", re.MULTILINE)
_PERCENTILE = re.compile(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s|m|h)\s*$", re.MULTILINE)
_SOCKET_ERRORS = re.compile(r"^\s*Socket errors: (.+)$", re.MULTILINE)
_BAD_STATUS = re.compile(r"^\s*Non-2xx or 3xx responses: (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run of wrk found; `fault` is empty where every request was answered well."""

    requests: int
    requests_per_s: float
    p50_ms: float
    p99_ms: float
    fault: str = ""


def parse(output: str) -> Measurement:
    """Read the output of `wrk --latency`.

    Raises ValueError when it is not that.
    """
    requests = _REQUESTS.search(output)
    rate = _RATE.search(output)
    percentiles = {
        percent: float(value) * _UNITS_MS[unit]
        for percent, value, unit in _PERCENTILE.findall(output)
    }
    if requests is None or rate is None or percentiles.keys() != {"50", "99"}:
        raise ValueError(f"not the output of wrk --latency: {output!r}")
    return Measurement(
        requests=int(requests[1]),
        requests_per_s=float(rate[1]),
        p50_ms=percentiles["50"],
        p99_ms=percentiles["99"],
        fault=_fault(output, int(requests[1])),
    )


def _fault(output: str, requests: int) -> str:
    faults = []
    if errors := _SOCKET_ERRORS.search(output):
        counts = [count for count in errors[1].split(", ") if not count.endswith(" 0")]
        faults.append("socket errors: " + ", ".join(counts))
    if bad := _BAD_STATUS.search(output):
        faults.append(f"{bad[1]} answers that are not 2xx")
    if requests == 0:
        faults.append("no answer")
    return "; ".join(faults)


def write_request(folder: Path, body: bytes, headers: Mapping[str, str]) -> Path:
    """Write a Lua script with which wrk posts this body, and the body beside it, into `folder`.

    wrk makes the request once and keeps its connections open, so that it calls no Lua while it
    measures.
    """
    body_file = folder / "request.body"
    body_file.write_bytes(body)
    lines = ['wrk.method = "POST"']
    lines += [f"wrk.headers[{_quoted(name)}] = {_quoted(value)}" for name, value in headers.items()]
    lines += [f'local file = assert(io.open({_quoted(str(body_file))}, "rb"))']
    lines += ['wrk.body = file:read("*a")', "file:close()"]
    script_file = folder / "request.lua"
    script_file.write_text("\n".join(lines) + "\n")
    return script_file


def _quoted(text: str) -> str:
    """As a Lua string; the escapes of JSON that occur here are Lua's, too."""
    return json.dumps(text, ensure_ascii=False)


def run(url: str, script_file: Path, *, clients: int, seconds: int) -> Measurement:
    """Load `url` with so many connections from one thread of wrk.

    One thread, since load generator and servers share the cores of one machine. Where wrk finds
    nobody to load, or does not come back, that is the fault of the measurement.
    """
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", f"{TIMEOUT_S}s"]
    command += ["--latency", "-s", str(script_file)]
    try:
        done = subprocess.run(
            [*command, url],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds + SPARE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _failed(f"wrk did not end within {seconds + SPARE_S:.0f} s")
    # Where the script has a fault, wrk says so and sends another request, and ends with 0.
    if done.returncode != 0 or done.stderr:
        return _failed(f"wrk: {(done.stderr or done.stdout).strip()}")
    return parse(done.stdout)


def _failed(fault: str) -> Measurement:
    return Measurement(requests=0, requests_per_s=0.0, p50_ms=0.0, p99_ms=0.0, fault=fault)
