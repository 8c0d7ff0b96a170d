"""Makes the virtual environments of the servers that Millstream is compared with.

They live in `benchmarks/.peers/`, apart from Millstream's own, and are made when first needed.
"""

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.server import Unavailable

ROOT = Path(__file__).resolve().parent.parent / ".peers"
# Where the plug-ins find the functions that the servers share, as `benchmarks.plugins.…`.
PLUGINS_PATH = ROOT.parent.parent
INSTALL_TIMEOUT_S = 900.0


def ensure(name: str, requirements: Sequence[str], *, dependencies: bool = True) -> Path:
    """Return the folder of a virtual environment that holds these requirements.

    Without `dependencies` it holds nothing else. Raises Unavailable.
    """
    folder = ROOT / name
    marker = folder / "requirements.txt"
    wanted = "\n".join(requirements)
    if marker.exists() and marker.read_text() == wanted:
        return folder
    print(f"installing {', '.join(requirements)} …", file=sys.stderr, flush=True)
    venv.create(folder, clear=True, with_pip=True)
    command = [str(folder / "bin/pip"), "install", "--quiet", *requirements]
    if not dependencies:
        command.append("--no-deps")
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"pip took more than {INSTALL_TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise Unavailable((errors or done.stderr.splitlines() or ["pip failed"])[-1])
    marker.write_text(wanted)
    return folder


def variables(**extra: str) -> dict[str, str]:
    """This process's environment without what could steer a server, and with `extra`.

    Python finds the package `benchmarks` in it.
    """
    steering = ("MILLSTREAM_", "MOSEC_", "PYTHON", "VIRTUAL_ENV")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(steering)}
    return kept | {"PYTHONPATH": str(PLUGINS_PATH)} | extra
