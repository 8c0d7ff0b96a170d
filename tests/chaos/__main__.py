"""`python -m tests.chaos`: a real deployment under load, and everything that can go wrong with it.

Exits 0 when all held, 1 when something did not; then it leaves the logs, and says where.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos import report, rooms
from tests.chaos.judge import WELL
from tests.chaos.run import LOGS, Run


def main() -> int:
    """Read the command line, and run."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no process is left
    arguments = _arguments()
    if arguments.folder is None:
        arguments.folder = Path(tempfile.mkdtemp(prefix="chaos-"))
        inside = ["--folder", str(arguments.folder), "--roomy"]
        rooms.enter(arguments.folder, ["-m", "tests.chaos", *sys.argv[1:], *inside])
    run = Run(
        arguments.seed,
        arguments.seconds,
        arguments.rate,
        enough=arguments.well,
        folder=arguments.folder,
        is_roomy=arguments.roomy,
    )
    is_told = arguments.verbose or sys.stdout.isatty()
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if is_told:
            _tell(line)

    try:
        outcome = run.play(tell)
    except KeyboardInterrupt:
        _tell(f"interrupted; logs: {arguments.folder / LOGS}")
        return 130
    for line in report.lines(outcome):
        _tell(line)
    if outcome.all_findings:
        logs = arguments.folder / LOGS
        (logs / "faults.txt").write_text("\n".join([*told, *outcome.verdict.without, ""]))
        _tell(f"logs: {logs}")
        return 1
    shutil.rmtree(arguments.folder)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default 600)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100_000, help="of the faults")
    parser.add_argument("--rate", type=float, default=1.0, help="kills a second (default 1)")
    parser.add_argument(
        "--well",
        type=float,
        default=WELL,
        metavar="SHARE",
        help="of the usual requests that must have a result where there was capacity"
        f" (default {WELL:g})",
    )
    parser.add_argument("--verbose", action="store_true", help="a line for each fault")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # how `rooms` goes on
    parser.add_argument("--roomy", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
