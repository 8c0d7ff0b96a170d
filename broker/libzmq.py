"""The broker's ROUTER of libzmq: for peers on other hosts, and for those that need keys."""

import select
from collections.abc import Sequence
from contextlib import ExitStack

import zmq

from broker.router import NoRoute
from broker.wire.address import Address, parse_address
from broker.wire.frames import MAX_MESSAGE_BYTES, Buffer
from broker.wire.keys import BrokerKeys, ClientKeys

ZAP_DOMAIN = "millstream"
HIGH_WATER_MESSAGES = 2000
"""A fuse and no flow control: credits bound what workers are sent, batching what gateways are."""
LINGER_MS = 2000
"""The last answers still go out, to peers that read them."""
ZERO_COPY_BYTES = 65536
"""Frames from this size on are handed over, not copied (pyzmq's own threshold for sending)."""

# Plain numbers: pyzmq's flags are enums, and joining two of those costs more than sending.
_NOBLOCK = int(zmq.NOBLOCK)
_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)


class LibzmqRouter:
    """A bound ROUTER with ROUTER_MANDATORY set.

    Sleeps on the socket's own descriptor, which costs a third of what zmq_poll does. It signals
    edges only, and sending may swallow one: so the socket is asked before each sleep.
    """

    def __init__(self, address: str, keys: BrokerKeys | None) -> None:
        """Raises OSError where it cannot listen there."""
        with ExitStack() as stack:
            context = stack.enter_context(zmq.Context())
            if keys is not None:
                _authenticate(context, keys, stack)
            socket = stack.enter_context(context.socket(zmq.ROUTER))
            _bind(socket, parse_address(address, bind=True), keys)
            self._closing = stack.pop_all()
        self._socket = socket
        self._fd = int(socket.get(zmq.FD))
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._slept = False
        self._is_dry = True

    def watch(self, fd: int) -> None:
        """Have `wait` also end when this descriptor is readable."""
        self._poll.register(fd, select.POLLIN)

    def forget(self, fd: int) -> None:
        """The reverse of `watch`."""
        self._poll.unregister(fd)

    def wait(self, timeout_s: float, *, is_quiet: bool = False) -> list[int]:
        """Blocks until something has come, at most so long; the watched ones that are readable."""
        self._is_dry = False
        self._slept = not self._has_input()
        if not self._slept:
            return []
        ready = self._poll.poll(max(0, int(timeout_s * 1000 + 0.999)))
        return [fd for fd, _ in ready if fd != self._fd]

    def _has_input(self) -> bool:
        return bool(int(self._socket.get(_EVENTS)) & _POLLIN)

    def receive(self) -> tuple[bytes, list[Buffer]] | None:
        """The next message that `wait` has found: its sender's routing id, and its frames.

        Who comes alone, after a sleep, is not kept waiting while others are looked for. A frame
        tells whether another follows at a tenth of the cost of asking the socket.
        """
        if self._is_dry:
            return None
        socket = self._socket
        try:
            peer = socket.recv(_NOBLOCK)
        except zmq.Again:  # woken for something else, or its sender is gone
            self._is_dry = True
            return None
        more = True  # behind the routing id there is at least one frame
        frames: list[Buffer] = []
        while more:
            frame = socket.recv(_NOBLOCK, copy=False)
            more = frame.more
            frames.append(frame.buffer if len(frame) >= ZERO_COPY_BYTES else frame.bytes)
        self._is_dry = self._slept or not self._has_input()
        return peer, frames

    def send(self, peer: bytes, frames: Sequence[Buffer]) -> bool:
        """Whether it is taken: not where the peer does not read. The frames must not change. Raises
        NoRoute.
        """
        socket = self._socket
        try:
            socket.send(peer, _MORE)
            for frame in frames[:-1]:
                socket.send(frame, _MORE, copy=False)
            socket.send(frames[-1], _NOBLOCK, copy=len(frames) == 1)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            raise NoRoute from error
        return True

    def close(self) -> None:
        """Ends all connections; what is unsent still leaves, within `LINGER_MS`."""
        self._closing.close()


def make_client_keys(keys: BrokerKeys) -> ClientKeys:
    """A new pair, with which a peer of the broker's own may join it."""
    return ClientKeys(*zmq.curve_keypair(), keys.public)


def _authenticate(
    context: "zmq.Context[zmq.Socket[bytes]]", keys: BrokerKeys, stack: ExitStack
) -> None:
    """Let in those whose public key stands in the keys folder, and nobody else (ZAP, RFC 27)."""

    class Allowed:
        def callback(self, _domain: str, key: bytes) -> bool:
            return key in keys.allowed

    from zmq.auth.thread import ThreadAuthenticator  # noqa: PLC0415  without keys nobody needs it

    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    stack.callback(authenticator.stop)
    authenticator.configure_curve_callback(domain=ZAP_DOMAIN, credentials_provider=Allowed())


def _bind(socket: "zmq.Socket[bytes]", address: Address, keys: BrokerKeys | None) -> None:
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    socket.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a peer that reconnects takes its own place again
    socket.setsockopt(zmq.SNDHWM, HIGH_WATER_MESSAGES)
    socket.setsockopt(zmq.RCVHWM, HIGH_WATER_MESSAGES)
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    socket.setsockopt(zmq.BACKLOG, 1024)
    # A host that vanished without a word; processes that hang are found by beats of our own.
    socket.setsockopt(zmq.HEARTBEAT_IVL, 2000)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 6000)
    if keys is not None:
        socket.curve_server = True
        socket.curve_publickey = keys.public
        socket.curve_secretkey = keys.secret
        socket.setsockopt(zmq.ZAP_DOMAIN, ZAP_DOMAIN.encode())
    socket.setsockopt(zmq.IPV6, int(address.ipv6))
    try:
        socket.bind(address.text)
    except zmq.ZMQError as error:
        raise OSError(error.errno, error.strerror) from None
