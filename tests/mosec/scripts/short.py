"""A server whose daemon ends, and no guard: it is imported by its workers as well."""

import subprocess
import sys
from types import MappingProxyType

from mosec import Server, Worker


class Echo(Worker):
    """Gives back what it gets."""

    example = MappingProxyType({"n": 1})

    def forward(self, data: dict[str, int]) -> dict[str, int]:
        return dict(data)


server = Server()
if "--with-daemon" in sys.argv and __name__ == "__main__":
    daemon = [sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(4)"]
    server.register_daemon("reader", subprocess.Popen(daemon, stdin=subprocess.PIPE))
server.append_worker(Echo)
server.append_worker(Echo, env=[{"A": "b"}])
server.run()
