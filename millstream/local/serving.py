"""The function `serve` that a script calls, and what it does where others load that script."""

import os
import sys
import threading
from typing import NoReturn, Unpack

from millstream.local.declare import Served, pipelines_of
from millstream.local.launch import serve_until_signalled
from millstream.local.mistakes import Mistake, Place, caller
from millstream.local.options import Options
from millstream.local.plan import make_plan
from millstream.local.record import recorder_of
from workers import loader


def serve(*pipelines: Served, **options: Unpack[Options]) -> None:
    """Serve pipelines from this process: broker, gateway and workers run as its children.

    Give it a list of stages, a dict of such lists by name, or `Pipeline`s. The keywords are the
    options of `millstream gateway` and `millstream broker`; an environment variable goes before
    them. Returns after Ctrl-C or SIGTERM, when all is drained. Ends the script (SystemExit) with 2
    for a mistake, told in one line, 3 where a stage cannot be loaded or set up, and 128 and the
    signal after a second one. Call it below `if __name__ == "__main__":`, in the main thread.
    """
    place = caller()
    _refuse_to_nest(place)
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(f"{place}: serve(…) takes over signals: call it in the main thread")
    recorder = recorder_of(os.environ)
    try:
        plan = make_plan(pipelines_of(pipelines, place), options, os.environ, place)
    except Mistake as mistake:
        if recorder is not None:
            recorder.mistake(mistake)
        _give_up(mistake)
    if recorder is not None:
        recorder.plan(plan)
    code = serve_until_signalled(plan)
    if code:
        sys.exit(code)


def _refuse_to_nest(place: Place) -> None:
    """A worker that loads the script must not serve it again."""
    if loader.loading:
        raise UnguardedServe(
            f"{place}: serve(…) is called when a worker loads this file; "
            'put it below `if __name__ == "__main__":`'
        )


class UnguardedServe(RuntimeError):
    """`serve` stands where every worker comes upon it."""


def _give_up(mistake: Mistake) -> NoReturn:
    sys.stderr.write(f"{mistake}\n")
    sys.exit(2)
