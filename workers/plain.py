"""The loop of a worker with a plain `forward`: receive batch, decode, forward, encode, send."""

import time

from workers.ahead import ReadAhead
from workers.execute import Done, run
from workers.results import split
from workers.serving import Serving
from workers.session import Held
from workers.signals import SignalCounter
from workers.stepping import Stepping
from workers.work import Hooks


def serve(hooks: Hooks, serving: Serving, stop: SignalCounter) -> None:
    """Runs batches until the session is closed."""
    with ReadAhead(hooks, serving.link) as ahead:
        _serve(hooks, serving, stop, ahead)


def _serve(hooks: Hooks, serving: Serving, stop: SignalCounter, ahead: ReadAhead) -> None:
    session, link = serving.session, serving.link
    link.watch(stop.fd)
    has_example = hooks.example is not None
    is_warm = has_example
    stepping = Stepping(hooks, serving, stop)
    before_s = 0.0  # how long the batch took that ended just now
    while True:
        serving.pump(stop, until_batch=True)
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
        started = time.monotonic()
        done = _run(hooks, serving, held, ahead, before_s)
        before_s = time.monotonic() - started
        stepping.take(serving.finish(held, done, before_s, sample=is_warm))
        is_warm = True
        if serving.is_suspicious():
            serving.conclude(works=has_example and _works(hooks))


def _run(hooks: Hooks, serving: Serving, held: Held, ahead: ReadAhead, before_s: float) -> Done:
    """What it has read of the batch is let go of at its end: `finish` looks at what is kept."""

    def renew() -> None:
        ahead.end()
        serving.send(serving.session.renew(held))

    work = ahead.work(held)
    ahead.begin(before_s)
    done = run(hooks, work, renew)
    ahead.end()
    return done


def _works(hooks: Hooks) -> bool:
    """Whether `forward` still does what it did when it was warmed up."""
    try:
        split(hooks.forward(*hooks.examples(1)), 1)
    except BaseException:
        return False
    return True
