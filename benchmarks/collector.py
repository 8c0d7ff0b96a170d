"""A collector of traces that takes what is exported, as any would, and forgets it.

Run as a process of its own (`python -m benchmarks.collector PORT`), so that it does not share an
interpreter with whoever measures.
"""

import contextlib
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks import processes
from benchmarks.peers import environment

ROOT = Path(__file__).resolve().parent.parent


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """Its address, while it runs."""
    port = processes.free_port()
    argv = [sys.executable, "-m", "benchmarks.collector", str(port)]
    environ = environment.variables(PYTHONPATH=str(ROOT))
    with processes.running("collector", argv, folder=folder, environ=environ):
        yield f"http://127.0.0.1:{port}"


class _Forgets(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read it, and be content."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Forgets) as server:
        server.serve_forever()
