"""The loop of a worker with a plain `forward`: receive batch, decode, forward, encode, send."""

import time

from workers.ahead import ReadAhead
from workers.execute import run
from workers.mark import Mark
from workers.plugin_log import running
from workers.results import split
from workers.serving import Serving
from workers.session import Held
from workers.signals import SignalCounter
from workers.stepping import Stepping
from workers.streams import OpenStream
from workers.work import Hooks


def serve(hooks: Hooks, serving: Serving, stop: SignalCounter, mark: Mark) -> None:
    """Runs batches until the session is closed."""
    with ReadAhead(hooks, serving.link, serving.send_unsent) as ahead:
        _serve(hooks, serving, stop, mark, ahead)


def _serve(
    hooks: Hooks, serving: Serving, stop: SignalCounter, mark: Mark, ahead: ReadAhead
) -> None:
    session, link = serving.session, serving.link
    link.watch(stop.fd)
    has_example = hooks.example is not None
    is_warm = has_example
    stepping = Stepping(hooks, serving, stop)
    before_s = 0.0  # how long the batch took that ended just now
    while True:
        serving.pump(stop, until_batch=True)
        if session.closed or not session.has_batch:
            serving.send_unsent()
        if session.closed:
            stepping.close()
            return
        stepping.advance()
        held = session.take() if stepping.has_room else None
        if held is None:
            if (stepping.is_idle or link.is_stuck) and link.wait(serving.wait_s()):
                stop.clear()
            before_s = 0.0
            continue
        if session.streams:
            serving.send(session.renew(held))  # until now it has waited for a round of these
        mark.begin(held.batch.epoch, held.batch.lease)
        streams, before_s = _run(hooks, serving, held, ahead, before_s, sample=is_warm)
        stepping.take(streams)
        del streams  # nor is one held here when it has ended
        is_warm = True
        if serving.is_suspicious():
            serving.conclude(works=has_example and _works(hooks))


def _run(
    hooks: Hooks, serving: Serving, held: Held, ahead: ReadAhead, before_s: float, *, sample: bool
) -> tuple[list[OpenStream], float]:
    """Runs a batch and sends its results; returns the streams among them, and how long it took. It
    holds on to nothing of the batch, which may lie in shared memory.
    """

    def renew() -> None:
        ahead.end()
        serving.send(serving.session.renew(held))

    started = time.monotonic()
    work = ahead.work(held)
    running.set(held.batch)
    if not ahead.begin(before_s):
        serving.send_unsent()
    done = run(hooks, work, renew)
    ahead.end()
    running.set(None)
    del work  # `finish` looks at what the plug-in keeps
    run_s = time.monotonic() - started
    may_wait = ahead.sends_after(run_s)
    return serving.finish(held, done, run_s, sample=sample, may_wait=may_wait), run_s


def _works(hooks: Hooks) -> bool:
    """Whether `forward` still does what it did when it was warmed up."""
    try:
        split(hooks.forward(*hooks.examples(1)), 1)
    except BaseException:
        return False
    return True
