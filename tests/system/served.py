"""A script that serves itself, as a process of a deployment of its own."""

import re
import signal
from pathlib import Path

from broker.payload.folder import folder_name, shm_root
from tests.system.deployment import COMMAND, Deployment, Role

PYTHON = COMMAND[0] if len(COMMAND) > 1 else str(Path(COMMAND[0]).with_name("python"))
PRIVATE = {"MILLSTREAM_BROKER": ""}
"""A broker that nobody else knows, in place of the one that a deployment names."""


def environment(mill: Deployment) -> dict[str, str]:
    """Runtime folders lie in the deployment's own one, which is empty in the end."""
    return {
        **PRIVATE,
        "XDG_RUNTIME_DIR": str(mill.runtime),
        "MILLSTREAM_PORT": str(mill.port),
        "PATH": f"{Path(PYTHON).parent}:{mill.env['PATH']}",
    }


def serve(mill: Deployment, script: Path | str, *argv: str, **env: str) -> Role:
    """`python SCRIPT`, or, with `argv`, `millstream ARGV… SCRIPT`, at the deployment's port."""
    command = [*mill.command, *argv, str(script)] if argv else [PYTHON, str(script)]
    return mill.spawn(command, name="app", env={**environment(mill), **env})


def stop(role: Role, signum: signal.Signals = signal.SIGINT) -> None:
    """Ctrl-C, and a drain."""
    role.send(signum)
    role.check_exit()


def broker_of(role: Role) -> str:
    """The address that it has told."""
    found = re.search(r"--broker (ipc://\S+)", role.output)
    assert found, role.output
    return found[1]


def arenas_of(address: str) -> Path:
    """The folder of the shared memory of the deployment at this address."""
    return shm_root() / folder_name(address)
