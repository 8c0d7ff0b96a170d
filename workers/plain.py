"""The loop of a worker with a plain `forward`: receive batch, decode, forward, encode, send."""

import time
from typing import Any

from workers.execute import run
from workers.serving import Serving
from workers.session import Held
from workers.signals import SignalCounter
from workers.warmup import arguments
from workers.work import Hooks


def serve(hooks: Hooks, serving: Serving, stop: SignalCounter, example: Any) -> None:
    """Runs batches until the session is closed."""
    session, link = serving.session, serving.link
    link.watch(stop.fd)
    is_example = example is not None
    is_warm = is_example
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
        if serving.is_suspicious(has_example=is_example):
            serving.conclude(works=is_example and _works(hooks, example))


def _run(hooks: Hooks, serving: Serving, held: Held, *, sample: bool) -> None:
    def renew() -> None:
        serving.send(serving.session.renew(held))

    started = time.monotonic()
    done = run(hooks, held.batch, held.received, renew)
    serving.finish(held, done, time.monotonic() - started, sample=sample)


def _works(hooks: Hooks, example: Any) -> bool:
    """Whether `forward` still does what it did when it was warmed up."""
    try:
        hooks.forward(*arguments(hooks, example, 1))
    except BaseException:
        return False
    return True
