"""What it costs to be looked at: `python -m benchmarks.observed`.

One deployment, and a gateway for each way to look: none, a line of the log for each request, traces
of some of them, all of both. They take turns under wrk, so that whatever else the machine does
meets all of them; the ratio is of the medians. Spans go to a collector that reads and forgets them.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks import load, processes
from benchmarks.peers import environment

ROOT = Path(__file__).resolve().parent.parent
SMALL = ROOT / "benchmarks" / "plugins" / "small"
DIGITS = ROOT / "examples" / "digits"
WAYS = {
    "nothing": (),
    "access log": ("--access-log",),
    "traces 1 %": ("--trace-sample", "0.01"),
    "both": ("--access-log", "--trace-sample", "0.01"),
    "traces 100 %": ("--trace-sample", "1"),
}


def main() -> int:
    """Measure and print, a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=3, help="of each run (3)")
    parser.add_argument("--rounds", type=int, default=5, help="of all ways (5)")
    parser.add_argument("--clients", type=int, default=64, help="connections (64)")
    parser.add_argument("--pipeline", choices=("one", "digits"), default="one")
    parser.add_argument("--ways", nargs="*", choices=tuple(WAYS), default=list(WAYS))
    parser.add_argument("--endpoint", default="", help="of a collector (one that forgets all)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as name:
        return _measure(Path(name), options)


def _measure(folder: Path, options: argparse.Namespace) -> int:
    command = str(Path(sys.executable).with_name("millstream"))
    address = f"ipc://{folder}/broker"
    with contextlib.ExitStack() as stack:
        endpoint = options.endpoint or stack.enter_context(_collector(folder))
        started = []

        def start(role: str, *arguments: str) -> None:
            argv = [command, *arguments, "--broker", address]
            environ = environment.variables(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
            running = processes.running(role, argv, folder=folder, environ=environ)
            started.append(stack.enter_context(running))

        if options.pipeline == "digits":
            start("broker", "broker", str(DIGITS / "pipeline.toml"), "--state", "none")
            for stage in ("preprocess", "infer", "postprocess"):
                start(stage, "worker", str(DIGITS / f"{stage}.py"))
            body, content_type = DIGITS / "samples" / "3.png", "image/png"
        else:
            start("broker", "broker", str(SMALL / "one.toml"), "--state", "none")
            start("add", "worker", str(SMALL / "millstream_plugin.py"), "--stage", "add")
            body, content_type = folder / "body.json", "application/json"
            body.write_text('{"x": 1}')
        ports = {way: processes.free_port() for way in options.ways}
        for way, port in ports.items():
            start(f"gateway-{port}", "gateway", "--port", str(port), *WAYS[way])

        def are_ready() -> bool:
            urls = [f"http://127.0.0.1:{port}/readyz" for port in ports.values()]
            return all(processes.fetch(url)[0] == 200 for url in urls)

        processes.wait_until(are_ready, started, timeout_s=60.0)
        script = load.write_request(folder, body.read_bytes(), {"Content-Type": content_type})
        return _rounds(ports, script, options)


def _rounds(ports: dict[str, int], script: Path, options: argparse.Namespace) -> int:
    rates: dict[str, list[float]] = {way: [] for way in ports}
    for number in range(options.rounds + 1):
        order = list(ports.items())
        for way, port in order if number % 2 else reversed(order):
            url = f"http://127.0.0.1:{port}/inference"
            found = load.run(url, script, clients=options.clients, seconds=options.seconds)
            if found.fault:
                print(f"{way}: {found.fault}", file=sys.stderr)
                return 1
            if number:  # the first is for caches
                rates[way].append(found.requests_per_s)
    base = statistics.median(next(iter(rates.values())))
    for way, found_rates in rates.items():
        median = statistics.median(found_rates)
        spread = f"{min(found_rates):,.0f} to {max(found_rates):,.0f}"
        print(f"{way:14} {median:10,.0f}/s  {median / base - 1.0:+7.1%}  ({spread})")
    return 0


@contextlib.contextmanager
def _collector(folder: Path) -> Iterator[str]:
    """A process that takes what is exported, as any collector would, and forgets it."""
    port = processes.free_port()
    argv = [sys.executable, "-m", "benchmarks.observed", "collect", str(port)]
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


def _collect(port: int) -> int:
    with ThreadingHTTPServer(("127.0.0.1", port), _Forgets) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["collect"]:
        sys.exit(_collect(int(sys.argv[2])))
    sys.exit(main())
