"""Runs wrk, and reads what it prints.

Knows nothing of servers or workloads. `parse` is pure; a measurement with any fault in it is no
measurement, and says so.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

SPARE_S = 30.0

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


def script(body: str) -> str:
    """A Lua script with which wrk posts this JSON body, on connections that it keeps open.

    The request is made once, so that wrk calls no Lua while it measures.
    """
    level = "=" * next(n for n in range(len(body) + 2) if f"]{'=' * n}]" not in body)
    return (
        'wrk.method = "POST"\n'
        'wrk.headers["Content-Type"] = "application/json"\n'
        f"wrk.body = [{level}[{body}]{level}]\n"
    )


def run(url: str, script_file: Path, *, clients: int, seconds: int) -> Measurement:
    """Load `url` with so many connections from one thread of wrk.

    One thread, since load generator and servers share the cores of one machine. Where wrk finds
    nobody to load, or does not come back, that is the fault of the measurement.
    """
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--latency", "-s", str(script_file)]
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
    if done.returncode != 0:
        return _failed(f"wrk: {(done.stderr or done.stdout).strip()}")
    return parse(done.stdout)


def _failed(fault: str) -> Measurement:
    return Measurement(requests=0, requests_per_s=0.0, p50_ms=0.0, p99_ms=0.0, fault=fault)
