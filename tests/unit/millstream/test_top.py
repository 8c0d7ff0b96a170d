"""The lines of `millstream top`: what is seen, at any size, and what keys change."""

from typing import Any

import msgspec
import pytest

from millstream.top.grid import Column, bar, grid, sparkline
from millstream.top.report import Report, parse
from millstream.top.terminal import _keys
from millstream.top.view import SORTS, State, lines, pressed

STAGE = {
    "queued": 934,
    "ready_workers": 3,
    "busy_workers": 3,
    "max_batch_size": 16,
    "oldest_s": 3.5,
    "out_per_s": 268.0,
    "wait_ms": {"p50": 1.0, "p95": 2700.0, "p99": 3000.0},
    "run_ms": {"p50": 1.0, "p95": 127.0, "p99": 130.0},
    "batch_sizes": {"16": 3, "4": 1},
    "estimate_ms": {"a": 35.5, "c": 4.45},
}


def worker(number: int, **keys: Any) -> dict[str, Any]:
    return {
        "id": f"{number:04x}",
        "stage": "infer",
        "state": "ready",
        "pid": 100 + number,
        "host": "mill",
        "index": number,
        "busy": number / 10,
        "batches": 1000 * number,
        "rss_bytes": 40 << 20,
        "age_s": 61.0,
    } | keys


REPORT: dict[str, Any] = {
    "uptime_s": 20.0,
    "pipelines": {
        "digits": {
            "chain": ["pre", "infer"],
            "ready": True,
            "items": 1000,
            "max_items": 4096,
            "stages": {"pre": {}, "infer": STAGE},
            "traffic": {
                "canary": "3",
                "versions": [
                    {"version": "2", "state": "ready", "share": 90.0},
                    {"version": "3", "state": "failed", "share": 10.0},
                ],
            },
            "latency_ms": {"p50": 980.0, "p95": 2700.0, "p99": 3500.0},
            "history": [
                [each, 100.0 * each, 90.0, 0.0, 3.0, 5, 1.0, 2.0, None if each < 3 else 9.0, [0, 1]]
                for each in range(30)
            ],
        },
        "other": {"chain": ["alone"], "stages": {"alone": {}}},
    },
    "workers": [worker(1), worker(2), worker(3)],
    "vacant": [worker(4, vacancy="lost")],
    "gateways": [{}],
    "events": [
        {"number": 1, "at": 0.0, "what": "worker_ready", "fields": {"stage": "infer"}},
        {"number": 2, "at": 1.0, "what": "worker_lost", "fields": {"reason": "a\nb", "why": ""}},
    ],
    "findings": [
        {
            "level": "warning",
            "what": "bottleneck",
            "text": "digits: infer is the bottleneck: start more",
            "pipeline": "digits",
            "stage": "infer",
        }
    ],
}


def report(**changes: Any) -> Report:
    return parse(msgspec.json.encode(REPORT | changes))


def shown(
    about: Report, state: State | None = None, *, width: int = 100, height: int | None = 40
) -> list[str]:
    drawn = lines(about, state or State(), width=width, height=height, local=False)
    return [line.plain for line in drawn]


def row(text: list[str], begin: str) -> str:
    (found,) = [line for line in text if line.startswith(begin)]
    return found


def test_all_there_is_to_see() -> None:
    text = shown(report(), width=160)
    assert text[0].startswith(
        "digits  ready  2,900/s in  90/s out  3.0/s refused  0/s failed  1000 of 4096 under way"
    )
    assert text[1] == "digits: infer is the bottleneck: start more"
    infer = row(text, "▶ infer")
    for cell in ("934", "3.5 s", "3/3", "268", "13/16", "2.7 s", "127 ms", "35.5 + 4.45·b"):
        assert cell in infer
    assert row(text, "  pre").split()[:2] == ["pre", "0"]
    assert row(text, "requests").endswith("▇▇████ up to 2,903/s")
    assert "up to 9 ms" in row(text, "p99")
    assert "90 %  ready" in row(text, "version 2")
    assert "failed  canary" in row(text, "version 3")
    assert "30%" in row(text, "infer/3")
    assert "lost" in row(text, "infer/4")
    at = text.index("events")
    assert text[at + 1 : at + 3] == [
        "00:00:01 worker lost  reason=a b",
        "00:00:00 worker ready  stage=infer",
    ]
    assert text[-1].startswith(" q quit  tab pipeline")


@pytest.mark.parametrize("height", [5, 8, 14, 24, 60])
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_it_fits_any_terminal(width: int, height: int) -> None:
    many = [worker(number) for number in range(50)]
    for about in (report(), report(workers=many), report(pipelines={}, workers=[], events=[])):
        text = shown(about, width=width, height=height)
        assert len(text) == height
        assert max(map(len, text)) <= width
        assert "q quit" in text[-1]


def test_the_most_important_stays_at_80_by_24() -> None:
    text = shown(report(workers=[worker(n) for n in range(1, 40)]), width=80, height=24)
    assert "bottleneck" in text[1]
    assert row(text, "▶ infer")
    assert row(text, "… and ").endswith("workers more")
    assert "events" in text


def test_without_an_end_all_is_told() -> None:
    text = shown(report(), height=None)
    assert row(text, "infer/1")
    assert text[-1].endswith("worker ready  stage=infer")


def test_an_empty_report_can_be_shown() -> None:
    assert shown(parse(b"{}"), height=None) == ["no pipeline  not ready  0 of 0 under way  "
                                                "0 gateways, up 0 s"]  # fmt: skip


def test_keys() -> None:
    about, state = report(), State()
    for key, name in (("\t", "other"), ("\t", "digits"), ("LEFT", "other"), ("1", "digits")):
        pressed(key, about, state)
        assert state.pipeline == name
    pressed("9", about, state)
    assert state.pipeline == "digits"
    pids = []
    for sort in SORTS:
        assert state.sort == sort
        text = shown(about, state)
        pids.append([line.split()[1] for line in text if line.startswith("infer/")])
        pressed("s", about, state)
    assert pids[0] == ["101", "102", "103", "104"]
    assert pids[1] == pids[2] == ["104", "103", "102", "101"]
    pressed("r", about, state)
    assert shown(about, state)[-1].rstrip().endswith("by stage, reversed")
    pressed(" ", about, state)
    assert state.paused
    assert "PAUSED" in shown(about, state)[-1]
    state.trouble = "no broker answers"
    assert "no broker answers" in shown(about, state)


def test_what_a_terminal_sends() -> None:
    assert [_keys(each) for each in (b"q", b"\t", b"\x1b[C", b"\x1b[5~", b"", b"ab")] == [
        ["q"],
        ["\t"],
        ["RIGHT"],
        [],
        ["ENDED"],
        ["a", "b"],
    ]


def test_columns_go_where_there_is_no_room() -> None:
    columns = [
        Column("name", ["a", "b"], 0, right=False),
        Column("first", ["1", "22"], 2),
        Column("second", ["3", "4"], 1),
    ]
    assert [line.plain for line in grid(columns, 40)] == [
        "name  first  second",
        "a         1       3",
        "b        22       4",
    ]
    assert [line.plain for line in grid(columns, 14)][1] == "a          3"
    assert [line.plain for line in grid(columns, 2)][1] == "a "


def test_bars_and_sparklines() -> None:
    assert (bar(0.5, 3), bar(9.0, 2), bar(0.0, 2)) == ("█▌ ", "██", "  ")
    assert sparkline([0.0, None, 4.0, 8.0], 6) == "  ▁ ▅█"
    assert sparkline([1.0, 2.0, 3.0], 2) == "▆█"
    assert sparkline([], 3) == "   "
