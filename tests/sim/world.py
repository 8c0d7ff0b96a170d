"""A world of virtual time: one heap of things to come, and a net that loses, doubles and delays.

Nodes are the real state machines of gateways, workers and supervisors, and the real core of the
broker. Every message travels as the frames that a socket would carry. Nothing here knows what the
messages mean.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

from msgspec import Struct

from broker.wire.frames import Buffer, decode_from_broker, decode_to_broker, encode
from tests.sim.memory import Host

BROKER = b"broker"
LATENCY_S = 0.0002
WAKE_UP_S = 1e-6


class Net(Struct):
    """How bad the net is: chances of each message, and who is cut off.

    An `ordered` net is like ZeroMQ: nothing overtakes what was sent before it, or comes twice.
    """

    ordered: bool = False
    drop: float = 0.0
    double: float = 0.0
    delay: float = 0.0
    delay_s: float = 0.5
    cut_off: set[bytes] = set()


class Node(ABC):
    """A process. It may be stopped for a while, or die."""

    def __init__(self, world: "World", id: bytes) -> None:
        self.world = world
        self.id = id
        self.alive = True
        self.stopped = False
        self.armed_at = float("inf")
        self.mailbox: list[tuple[bytes, list[Buffer]]] = []
        world.nodes[id] = self

    @abstractmethod
    def receive(self, sender: bytes, message: Any) -> None:
        """A message arrives."""

    @abstractmethod
    def tick(self) -> None:
        """Time has come to `due`."""

    @abstractmethod
    def due(self) -> float:
        """When `tick` is to be called at the latest."""

    @property
    def now(self) -> float:
        return self.world.now

    def die(self) -> None:
        """The process is gone, and what was on its way to it."""
        self.alive = False
        del self.world.nodes[self.id]

    def stop(self) -> None:
        """SIGSTOP: it hears nothing, and knows of no time."""
        self.stopped = True

    def go_on(self) -> None:
        """SIGCONT: all that has come meanwhile is there at once."""
        if self.stopped and self.alive:
            self.stopped = False
            mailbox, self.mailbox = self.mailbox, []
            for sender, frames in mailbox:
                if self.alive:  # one of them may have been its last
                    self.take(sender, frames)
            if self.alive:
                self.tick()
                self.world.arm(self)

    def take(self, sender: bytes, frames: list[Buffer]) -> None:
        """Frames arrive."""
        decode: Callable[[Any], Any] = decode_to_broker if self.id == BROKER else decode_from_broker
        self.receive(sender, decode(frames))
        self.world.arm(self)


class World:
    """The clock, the net, and everyone in it."""

    def __init__(self, seed: int) -> None:
        self.now = 1000.0
        self.rng = Random(seed)
        self.net = Net()
        self.host = Host()
        self.nodes: dict[bytes, Node] = {}
        self.messages = 0
        self._arrivals: dict[tuple[bytes, bytes], float] = {}
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Have something happen later."""
        self._count += 1
        heappush(self._heap, (self.now + seconds, self._count, do))

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        until = self.now + seconds
        heap = self._heap
        while heap and heap[0][0] <= until:
            at, _, do = heappop(heap)
            self.now = max(self.now, at)
            do()
        self.now = until

    def arm(self, node: Node) -> None:
        """Have a node ticked when it wants to be; no poller wakes up at the very float."""
        due = max(node.due(), self.now) + WAKE_UP_S
        if due < node.armed_at:
            node.armed_at = due
            self.after(due - self.now, lambda: self._ring(node, due))

    def _ring(self, node: Node, due: float) -> None:
        if node.armed_at != due:
            return  # it was armed for an earlier moment since
        node.armed_at = float("inf")
        if node.alive and not node.stopped:
            node.tick()
            self.arm(node)

    def send(self, sender: bytes, to: bytes, message: Any) -> bool:
        """Give a message to the net; False where there is no connection to that peer."""
        if to not in self.nodes:
            return False
        net, rng = self.net, self.rng
        # What is sent is copied: the receiver must not see later changes of the sender.
        frames: list[Buffer] = [bytes(frame) for frame in encode(message)]
        self.messages += 1
        copies = 2 if not net.ordered and rng.random() < net.double else 1
        for _ in range(copies):
            if rng.random() >= net.drop and not {sender, to} & net.cut_off:
                delay = rng.random() * net.delay_s if rng.random() < net.delay else LATENCY_S
                if net.ordered:
                    delay = max(delay, self._arrivals.get((sender, to), 0.0) - self.now)
                    self._arrivals[sender, to] = self.now + delay
                self.after(delay, lambda: self._arrive(sender, to, frames))
        return True

    def _arrive(self, sender: bytes, to: bytes, frames: list[Buffer]) -> None:
        node = self.nodes.get(to)
        if node is None:
            return
        if node.stopped:
            node.mailbox.append((sender, frames))
        else:
            node.take(sender, frames)
