"""The loop of a worker with a plain `forward`: receive batch, decode, forward, encode, send."""

import time

from workers.execute import run
from workers.results import split
from workers.serving import Serving
from workers.session import Held
from workers.signals import SignalCounter
from workers.stepping import Stepping
from workers.streams import OpenStream
from workers.work import Hooks


def serve(hooks: Hooks, serving: Serving, stop: SignalCounter) -> None:
    """Runs batches until the session is closed."""
    session, link = serving.session, serving.link
    link.watch(stop.fd)
    has_example = hooks.example is not None
    is_warm = has_example
    stepping = Stepping(hooks, serving, stop)
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
            continue
        stepping.take(_run(hooks, serving, held, sample=is_warm))
        is_warm = True
        if serving.is_suspicious():
            serving.conclude(works=has_example and _works(hooks))


def _run(hooks: Hooks, serving: Serving, held: Held, *, sample: bool) -> list[OpenStream]:
    def renew() -> None:
        serving.send(serving.session.renew(held))

    if serving.session.streams:
        renew()  # until now it has waited for a round of these
    started = time.monotonic()
    done = run(hooks, held.batch, held.received, renew)
    return serving.finish(held, done, time.monotonic() - started, sample=sample)


def _works(hooks: Hooks) -> bool:
    """Whether `forward` still does what it did when it was warmed up."""
    try:
        split(hooks.forward(*hooks.examples(1)), 1)
    except BaseException:
        return False
    return True
