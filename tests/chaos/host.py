"""What a run leaves behind on its host: memory, shared memory, sockets, tracebacks."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from benchmarks import resident
from broker.payload.folder import folder_name
from tests.fault.rig import Rig
from tests.system.deployment import Deployment

GROWTH = 1.25
SLACK_BYTES = 8 << 20
"""What a process may grow to, against one that had served for as long before anything happened."""
MEBIBYTE = 1 << 20
SHARED_MEMORY = Path("/dev/shm")

NEXT = re.compile(r"time=\d")
"""A line of the log, of this process or, after one that was cut, of another."""
PLANNED = re.compile(r"(\w+\.)?(Poisoned|MemoryError): as the item wished")
"""What requests have plug-ins raise."""
CRASHED = "Fatal Python error: Segmentation fault"
GAUGES = {
    "millstream_gateway_waiting_items",
    "millstream_gateway_held_bytes",
    "millstream_arena_used_bytes",
}
"""Of a gateway that nobody uses, these are 0."""


def memory_of(rig: Rig) -> dict[str, int]:
    """The bytes that the largest process of each sort has for itself."""
    supervisors = [role for crew in rig.supervisors.values() for role in crew]
    sorts = {"broker": [rig.broker], "gateway": rig.gateways, "supervisor": supervisors}
    return {
        sort: max(resident.resident(role.pid).own_bytes for role in roles)
        for sort, roles in sorts.items()
    }


def grown(before: dict[str, int], after: dict[str, int]) -> Iterator[str]:
    """Which of them are too much larger than before, in words."""
    for sort, bytes in before.items():
        if after[sort] > bytes * GROWTH + SLACK_BYTES:
            yield (
                f"memory: a {sort} had {bytes / MEBIBYTE:.0f} MiB, "
                f"and then {after[sort] / MEBIBYTE:.0f}"
            )


def still_held(rig: Rig) -> Iterator[str]:
    """What broker and gateways hold though nobody waits for anything."""
    for arena in rig.status()["arenas"]:
        if arena["slots"]:
            yield f"{arena['slots']} slots of arena {arena['id']} ({arena['owner'] or 'no owner'})"
    for port in rig.ports:
        with rig.mill.client(port=port) as client:
            text = client.get("/metrics").body.decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in GAUGES and sample.value:
                    yield f"{sample.name} of the gateway at port {port} is {sample.value:g}"


def tracebacks(logs: Iterable[Path]) -> Iterator[str]:
    """What was raised, by log, but for what requests asked for."""
    for log in logs:
        for raised in _raised(log.read_text(errors="replace")):
            yield f"{log.name}: {raised}"


def _raised(text: str) -> Iterator[str]:
    """The last lines of all tracebacks, but for those that a full disk has cut short. Where a
    process crashes, as requests ask for, it says so, and where each of its threads was.
    """
    is_in = False
    for line in text.splitlines():
        if line.startswith("Traceback "):
            is_in = True
        elif NEXT.search(line) or CRASHED in line:
            is_in = False
        elif is_in and line and not line[0].isspace():
            is_in = False
            if not PLANNED.fullmatch(line):
                yield line


def left_behind(mill: Deployment, memory: Path) -> list[str]:
    """The processes, sockets and arenas of a deployment that has ended."""
    arenas = memory / folder_name(mill.address)
    return [
        *(f"process {process.pid}" for process in mill.processes()),
        *(str(path) for path in mill.runtime.iterdir()),
        *(str(path) for path in [arenas, *arenas.glob("*")] if path.exists()),
    ]
