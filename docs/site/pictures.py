"""The pictures of the concepts and patterns: `python -m docs.site.pictures` writes docs/images."""

from collections.abc import Sequence
from pathlib import Path

from docs.site.drawing import Drawing

IMAGES = Path(__file__).parents[1] / "images"


def processes() -> Drawing:
    """Who speaks to whom."""
    picture = Drawing(720, 260)
    for y in (30, 130):
        picture.text(48, y + 34, "HTTP, gRPC", kind="dim")
        picture.arrow((84, y + 30), (130, y + 30))
        picture.box(130, y, 130, 60, "gateway", "any number", kind="blue")
        picture.arrow((260, y + 30), (310, 110 if y < 100 else 140))
    picture.box(310, 80, 130, 90, "broker", "one address", "queues, batches", kind="amber")
    stages = (("preprocess", "CPU"), ("infer", "GPU"), ("postprocess", "CPU"))
    for number, (name, device) in enumerate(stages):
        y = 10 + 90 * number
        for shift in (8, 4):
            picture.box(540 + shift, y + shift, 150, 50, kind="green")
        picture.box(540, y, 150, 50, name, f"{device}, n processes", kind="green")
        picture.arrow((440, 125), (540, y + 27))
    return picture


def life() -> Drawing:
    """An item, from its request to its one answer."""
    picture = Drawing(720, 250)
    picture.box(20, 30, 110, 56, "request", "gateway holds it", kind="blue")
    picture.box(180, 30, 110, 56, "queued", "in a stage", kind="amber")
    picture.box(350, 30, 110, 56, "leased", "a worker runs it", kind="green")
    picture.box(560, 30, 130, 56, "answered", "exactly once", kind="blue")
    picture.arrow((130, 58), (180, 58), words="admit")
    picture.arrow((290, 58), (350, 58), words="dispatch")
    picture.arrow((460, 58), (560, 58), words="last result")
    picture.arrow((380, 30), (380, 14), (250, 14), (250, 30))
    picture.text(315, 10, "result: on to the next stage", kind="dim")
    picture.arrow((430, 86), (430, 128), (220, 128), (220, 86))
    picture.text(325, 146, "its worker died: run elsewhere", kind="dim")
    picture.box(20, 180, 110, 50, "refused", "429, 503 at once", kind="red")
    picture.arrow((75, 86), (75, 180))
    picture.text(80, 124, "no room, no time", kind="dim", anchor="start")
    picture.box(350, 180, 150, 50, "expired", "504 at its deadline", kind="red")
    picture.box(540, 180, 150, 50, "cancelled", "its client has gone", kind="box")
    picture.arrow((445, 86), (445, 180))
    picture.arrow((455, 86), (610, 180))
    picture.text(560, 128, "from any state", kind="dim", anchor="start")
    return picture


def batching() -> Drawing:
    """Batches form while the worker is busy."""
    picture = Drawing(720, 214)
    picture.text(20, 42, "arrivals", anchor="start", kind="head")
    picture.text(20, 102, "worker", anchor="start", kind="head")
    picture.line((100, 55), (700, 55))
    moments = (110, 130, 150, 178, 205, 236, 262, 290, 300, 312, 330, 352, 380, 560)
    for x in moments:
        picture.line((x, 36), (x, 55))
    batches = ((110, 90, "1"), (204, 130, "4"), (338, 170, "7"), (512, 46, "1"), (562, 60, "1"))
    for x, width, words in batches:
        picture.box(x, 78, width - 4, 40, words, kind="green")
    picture.arrow((110, 150), (110, 120))
    picture.text(110, 166, "alone: runs at once", kind="dim", anchor="start")
    picture.arrow((338, 176), (338, 120))
    picture.text(344, 188, "what came while the batch of 4 ran", kind="dim", anchor="start")
    picture.arrow((562, 150), (562, 120))
    picture.text(562, 166, "idle again: no wait", kind="dim", anchor="start")
    picture.text(700, 74, "time", kind="dim", anchor="end")
    return picture


def delivery() -> Drawing:
    """A worker dies under its batch."""
    ways = ["broker", "worker 1", "worker 2"]
    steps: Sequence[tuple[str, str, str, str]] = (
        ("broker", "worker 1", "batch A, a lease: items a, b", ""),
        ("broker", "worker 1", "batch B, sent ahead", ""),
        ("worker 1", "worker 1", "dies while it runs A", "red"),
        ("broker", "worker 2", "B again: not begun, no attempt used", ""),
        ("broker", "worker 2", "a, alone: a suspect", ""),
        ("worker 2", "broker", "result of a", ""),
        ("broker", "worker 2", "b, alone", ""),
        ("worker 2", "broker", "result of b: both are answered, once", ""),
    )
    return _sequence(ways, steps, ("amber", "green", "green"))


def hot_swap() -> Drawing:
    """A new version takes over."""
    steps = (
        ("clients", "version 2", "all requests", ""),
        ("version 3", "version 3", "folder complete: loads, warms up", "green"),
        ("clients", "version 2", "still all requests", ""),
        ("version 3", "version 3", "every worker is ready: takes over", "green"),
        ("clients", "version 3", "new requests", ""),
        ("version 2", "clients", "answers to what it had taken", "dash"),
        ("version 2", "version 2", "kept warm for 600 s, then drains", "box"),
    )
    return _sequence(["clients", "version 2", "version 3"], steps, ("blue", "green", "green"))


def rollback() -> Drawing:
    """Back to the version before."""
    steps = (
        ("clients", "version 3", "all requests", ""),
        ("broker", "broker", "rollback: 3 is rejected", "amber"),
        ("clients", "version 2", "every request that comes from now on", ""),
        ("version 3", "clients", "answers to what it had taken", "dash"),
    )
    ways = ["clients", "broker", "version 2", "version 3"]
    return _sequence(ways, steps, ("blue", "amber", "green", "green"))


def canary() -> Drawing:
    """A few requests to a new version."""
    return _split("95 of 100", "5 of 100", "version 2, stable", "version 3, canary")


def ab() -> Drawing:
    """Users to sides."""
    picture = Drawing(720, 170)
    picture.box(10, 20, 100, 46, "user ann", kind="blue")
    picture.box(10, 104, 100, 46, "user bob", kind="blue")
    picture.box(190, 20, 110, 46, "gateway 1").box(190, 104, 110, 46, "gateway 2")
    picture.box(360, 56, 150, 58, "hash", "pipeline, X-User-Id", kind="amber")
    picture.box(590, 20, 120, 46, "version 2", kind="green")
    picture.box(590, 104, 120, 46, "version 3", kind="green")
    picture.arrow((110, 43), (190, 43)).arrow((110, 50), (190, 118)).arrow((110, 127), (190, 127))
    picture.arrow((300, 43), (360, 75)).arrow((300, 127), (360, 98))
    picture.arrow((510, 75), (590, 43)).arrow((510, 98), (590, 127))
    picture.text(545, 48, "ann, always", kind="dim").text(545, 134, "bob, always", kind="dim")
    return picture


def shadow() -> Drawing:
    """Copies whose answers nobody gets."""
    picture = Drawing(720, 190)
    picture.box(10, 60, 100, 50, "requests", kind="blue")
    picture.box(170, 60, 100, 50, "broker", kind="amber")
    picture.box(360, 14, 120, 50, "version 2", kind="green")
    picture.box(360, 120, 120, 50, "version 3", "copies", kind="box")
    picture.box(590, 14, 110, 50, "answers", kind="blue").box(590, 120, 110, 50, "figures")
    picture.arrow((110, 85), (170, 85))
    picture.arrow((270, 78), (360, 39))
    picture.arrow((270, 92), (360, 145), dash=True)
    picture.arrow((480, 39), (590, 39)).arrow((480, 145), (590, 145), words="compared", dash=True)
    picture.arrow((645, 64), (645, 120), dash=True)
    picture.text(230, 150, "when its worker has nothing else", kind="dim")
    return picture


def traffic() -> Drawing:
    """Who gets which version, decided once for each request."""
    picture = Drawing(720, 230)
    picture.box(10, 90, 100, 50, "request", kind="blue")
    picture.box(170, 70, 150, 90, "at admission", "URL, label, sticky,", "shares", kind="amber")
    picture.arrow((110, 115), (170, 115))
    rows = ((10, "version 2", "95 %, stable", "green"), (90, "version 3", "5 %, canary", "green"),
            (170, "version 4", "shadow: copies", "box"))  # fmt: skip
    for y, name, what, kind in rows:
        picture.box(420, y, 130, 50, name, what, kind=kind)
        picture.arrow((320, 115), (420, y + 25), dash=kind == "box")
        if kind != "box":
            picture.arrow((550, y + 25), (610, 80))
    picture.box(610, 60, 100, 44, "answer", "X-Model-Version", kind="blue")
    picture.text(610, 190, "kept through all", kind="dim", anchor="start")
    picture.text(610, 206, "stages and retries", kind="dim", anchor="start")
    return picture


def backpressure() -> Drawing:
    """A slow stage holds back those before it."""
    picture = Drawing(720, 170)
    names = (("preprocess", 6), ("infer", 2), ("postprocess", 0))
    picture.text(60, 30, "work waits here, as bodies", kind="dim", anchor="start")
    x = 60
    for number in range(9):
        picture.box(x - 40 + number * 14, 54, 11, 34, kind="blue")
    picture.arrow((150, 71), (190, 71))
    for number, (name, waiting) in enumerate(names):
        left = 190 + number * 180
        picture.box(left, 44, 120, 54, name, kind="red" if name == "infer" else "green")
        if number < 2:
            picture.arrow((left + 120, 71), (left + 180, 71))
        for each in range(waiting if number else 0):
            picture.box(left - 38 + each * 14, 54, 11, 34, kind="amber")
    picture.text(430, 124, "the slow stage: its queue is bounded", kind="dim")
    picture.text(250, 124, "waits for room ahead", kind="dim")
    return picture


# ------------------------------------------------------------------ forms


def _sequence(
    ways: list[str], steps: Sequence[tuple[str, str, str, str]], kinds: Sequence[str]
) -> Drawing:
    """Messages from above to below, between lanes; one to itself is a note."""
    width, row = 720, 40
    height = 62 + row * len(steps)
    picture = Drawing(width, height)
    middle = {way: (number + 0.5) * width / len(ways) for number, way in enumerate(ways)}
    for way, kind in zip(ways, kinds, strict=True):
        picture.line((middle[way], 40), (middle[way], height - 6), dash=True)
        picture.box(middle[way] - 58, 6, 116, 34, way, kind=kind)
    for number, (start, end, words, kind) in enumerate(steps):
        y = 76 + number * row
        if start == end:
            span = min(240.0, width / len(ways) - 6)
            left = min(max(middle[start] - span / 2, 4), width - span - 4)
            picture.box(left, y - 18, span, 28, kind=kind)
            picture.text(left + span / 2, y + 1, words, kind="dim")
        else:
            picture.arrow((middle[start], y), (middle[end], y), words=words, dash=kind == "dash")
    return picture


def _split(most: str, few: str, stable: str, other: str) -> Drawing:
    picture = Drawing(720, 170)
    picture.box(10, 60, 100, 50, "requests", kind="blue")
    picture.box(180, 60, 100, 50, "broker", kind="amber")
    picture.box(380, 14, 150, 50, stable, kind="green").box(380, 108, 150, 50, other, kind="green")
    picture.box(610, 14, 100, 50, "answers", "version: 2")
    picture.box(610, 108, 100, 50, "answers", "version: 3")
    picture.arrow((110, 85), (180, 85)).arrow((280, 78), (380, 39)).arrow((280, 92), (380, 133))
    picture.arrow((530, 39), (610, 39)).arrow((530, 133), (610, 133))
    picture.text(320, 46, most, kind="dim").text(320, 132, few, kind="dim")
    return picture


PICTURES = {
    "processes": processes, "life": life, "batching": batching, "delivery": delivery,
    "hot-swap": hot_swap, "rollback": rollback, "canary": canary, "ab": ab, "shadow": shadow,
    "traffic": traffic, "backpressure": backpressure,
}  # fmt: skip


def main() -> None:
    """Write all of them."""
    for name, draw in PICTURES.items():
        (IMAGES / f"{name}.svg").write_text(draw().svg())


if __name__ == "__main__":
    main()
