"""Says on what machine the figures were taken."""

import os
import platform
import shutil
import subprocess
from pathlib import Path


def describe() -> dict[str, str | int]:
    """Cores that this process may use, processor, kernel, Python, and wrk where it is installed."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "wrk": wrk_version() if shutil.which("wrk") else "",
    }


def wrk_version() -> str:
    """The version of the installed wrk. Raises FileNotFoundError where there is none."""
    shown = subprocess.run(["wrk", "--version"], capture_output=True, text=True, check=False)
    return shown.stdout.partition("[")[0].removeprefix("wrk").strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()
