"""The loop of a worker with a plain `forward`: receive batch, decode, forward, encode, send."""

import time

from workers.execute import run
from workers.results import split
from workers.serving import Serving
from workers.session import Held
from workers.signals import SignalCounter
from workers.work import Hooks


def serve(hooks: Hooks, serving: Serving, stop: SignalCounter) -> None:
    """Runs batches until the session is closed."""
    session, link = serving.session, serving.link
    link.watch(stop.fd)
    has_example = hooks.example is not None
    is_warm = has_example
    while True:
        serving.pump(stop, until_batch=True)
        if session.closed:
            return
        held = session.take()
        if held is None:
            if link.wait(serving.wait_s()):
                stop.clear()
            continue
        _run(hooks, serving, held, sample=is_warm)
        is_warm = True
        if serving.is_suspicious():
            serving.conclude(works=has_example and _works(hooks))


def _run(hooks: Hooks, serving: Serving, held: Held, *, sample: bool) -> None:
    def renew() -> None:
        serving.send(serving.session.renew(held))

    started = time.monotonic()
    done = run(hooks, held.batch, held.received, renew)
    serving.finish(held, done, time.monotonic() - started, sample=sample)


def _works(hooks: Hooks) -> bool:
    """Whether `forward` still does what it did when it was warmed up."""
    try:
        split(hooks.forward(*hooks.examples(1)), 1)
    except BaseException:
        return False
    return True
