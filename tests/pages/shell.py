"""Runs the commands of a page as they stand there, but for ports and places of the system."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.pages.blocks import is_server, words_of
from tests.ports import free_port
from tests.system.deployment import Deployment, Role

URL = "http://127.0.0.1:8000"
"""Where requests of pages go to."""


class Shell:
    """Commands beside a deployment, in its folder or one within."""

    def __init__(self, mill: Deployment, replaced: Mapping[str, str] | None = None) -> None:
        """`replaced`: what else of a command is another here."""
        self.mill = mill
        self.replaced = {
            URL: f"http://127.0.0.1:{mill.port}",
            "/run/millstream/": f"{mill.runtime}/",
            **(replaced or {}),
        }
        self.env = {
            **mill.env,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{mill.env['PATH']}",
            "MILLSTREAM_SECONDS": "1",  # of `bench`, where it is not said
            "MILLSTREAM_URL": f"http://127.0.0.1:{mill.port}",  # of `call`
        }

    def here(self, text: str) -> str:
        """A command, or a script, with what is another here."""
        for shown, real in self.replaced.items():
            text = text.replace(shown, real)
        return text

    def run(self, command: str, page: str = "") -> str:
        """What it writes to its stdout; AssertionError unless it exits 0."""
        return self._ran(["sh", "-c"], command, page)

    def python(self, script: str, page: str = "") -> str:
        """Likewise, of a script."""
        return self._ran([sys.executable, "-c"], script, page)

    def _ran(self, by: list[str], text: str, page: str) -> str:
        ran = subprocess.run(
            [*by, self.here(text)],
            cwd=self.mill.folder / page,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, f"{page}: {text}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def start(self, command: str, *, port: int | None = None) -> Role:
        """A server; a gateway that names no port has this one, or one of its own."""
        assert is_server(command), command
        words = words_of(self.here(command))
        env = {"MILLSTREAM_PORT": str(port or free_port())}
        return self.mill.spawn([*self.mill.command, *words[1:]], name=words[1], env=env)
