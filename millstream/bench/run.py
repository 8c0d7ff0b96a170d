"""What `millstream bench` does, once its options are read: one run, a sweep, or a search."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from millstream.bench.crew import CannotMeasure, OnProgress, measure
from millstream.bench.load import Load
from millstream.bench.picture import page, picture
from millstream.bench.result import Result, is_met, result_of
from millstream.bench.search import START_PER_S, Search
from millstream.bench.tally import SLICES
from millstream.bench.words import compared, ms_of, one_run, several_runs
from millstream.cli.errors import CommandError
from millstream.cli.tables import Table, plain, show, write_line

FORMAT = 1
"""Of a saved file; a later one has another."""


class Saved(msgspec.Struct, frozen=True):
    """A file of `--save`, and what `--json` shows. `found_per_s`: what `--find` found."""

    format: int
    share_percent: float
    runs: list[Result]
    found_per_s: float | None = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become of the figures. `share_percent` of what is sent is to meet the SLO."""

    share_percent: float = 99.0
    as_json: bool = False
    save: str = ""
    compare: str = ""
    plot: str = ""


def run_rates(load: Load, rates: list[float], wanted: Wanted) -> int:
    """One run, or one for each of several rates; `rates` is empty for clients."""
    before = _before(wanted)
    results = [
        _one(each)
        for each in ([replace(load, rate_per_s=rate) for rate in rates] if rates else [load])
    ]
    return _tell(Saved(FORMAT, wanted.share_percent, results), wanted, before)


def find(load: Load, wanted: Wanted) -> int:
    """Search the highest rate at which the SLO is met. Exit code 1 where none meets it."""
    before = _before(wanted)
    search = Search(load.rate_per_s or START_PER_S)
    results = []
    while (rate := search.next) is not None:
        result = _one(replace(load, rate_per_s=rate))
        results.append(result)
        met = is_met(result, wanted.share_percent)
        search.told(met=met)
        p99 = ms_of(result.figures.percentiles_ms.get("p99"))
        said = f"{rate:,.1f}/s: {result.good_share:.2%} in time, p99 {p99} ms"
        write_line(f"{said}: {'met' if met else 'missed'}", to=sys.stderr)
    ordered = sorted(results, key=lambda result: result.rate_per_s)
    saved = Saved(FORMAT, wanted.share_percent, ordered, search.found)
    _tell(saved, wanted, before)
    if not search.found:
        raise CommandError("no rate met the SLO, not even one request a second", code=1)
    return 0


def show_saved(path: str, wanted: Wanted) -> int:
    """Show a file of `--save` again, without a run."""
    return _tell(load_saved(path), wanted, _before(wanted))


def load_saved(path: str) -> Saved:
    """Raises CommandError where the file cannot be read, or is none."""
    try:
        saved = msgspec.json.decode(Path(path).read_bytes(), type=Saved)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from None
    except msgspec.MsgspecError as error:
        raise CommandError(f"{path}: is no file of --save: {error}") from None
    if saved.format != FORMAT or not saved.runs:
        raise CommandError(f"{path}: is no file of --save that this release can read")
    return saved


def _before(wanted: Wanted) -> Saved | None:
    """What is to be compared with: read before the run, which would else be for nothing."""
    return load_saved(wanted.compare) if wanted.compare else None


def _one(load: Load) -> Result:
    try:
        with _bar(load) as on_progress:
            tally = measure(load, on_progress)
    except CannotMeasure as error:
        raise CommandError(str(error), code=1) from None
    return result_of(
        tally,
        url=load.target.url,
        rate_per_s=load.rate_per_s,
        clients=load.clients,
        seconds=load.seconds,
        slo_s=load.slo_s,
        slices=SLICES,
        is_cut=load.requests > 0,
    )


def _tell(saved: Saved, wanted: Wanted, before: Saved | None) -> int:
    tables = _tables(saved, before)
    try:
        if wanted.save:
            Path(wanted.save).write_bytes(msgspec.json.encode(saved))
        if wanted.plot:
            _draw(saved, before, wanted.plot, plain(tables))
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror or error}") from None
    if wanted.as_json:
        write_line(msgspec.json.encode(saved).decode())
    else:
        show(tables)
    return 0


def _tables(saved: Saved, before: Saved | None) -> list[Table]:
    runs = saved.runs
    tables = one_run(runs[0]) if len(runs) == 1 else several_runs(runs, saved.share_percent)
    if saved.found_per_s:
        said = f"the highest rate that meets the SLO: {saved.found_per_s:,.1f} requests a second"
        tables.append(Table([said]))
    if before is not None:
        earlier = {_load_of(run): run for run in before.runs}
        pairs = [(earlier[_load_of(run)], run) for run in runs if _load_of(run) in earlier]
        if not pairs:
            pairs = [(before.runs[-1], runs[-1])]
        tables += [compared(*pair) for pair in pairs]
    return tables


def _load_of(run: Result) -> tuple[float, int]:
    return run.rate_per_s, run.clients


def _draw(saved: Saved, before: Saved | None, path: str, text: str) -> None:
    drawn = picture(saved.runs, before.runs if before is not None else ())
    if path.endswith((".html", ".htm")):
        drawn = page(drawn, f"millstream bench {saved.runs[0].url}", text)
    Path(path).write_text(drawn, encoding="utf-8")


@contextmanager
def _bar(load: Load) -> Iterator[OnProgress | None]:
    """A progress bar on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415  # text needs none
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    seconds = load.warm_up_s + load.seconds
    what = f"{load.rate_per_s:g}/s" if load.is_open else f"{load.clients} clients"
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("sent {task.fields[begun]:,}, waiting for {task.fields[left]:,}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=seconds, begun=0, left=0)

        def on_progress(begun: int, ended: int) -> None:
            passed = progress.tasks[0].elapsed or 0.0
            completed = min(passed, seconds)
            progress.update(task, completed=completed, begun=begun, left=begun - ended)

        yield on_progress
