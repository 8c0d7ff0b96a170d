"""Asks the running broker one question over its own address, and waits for the answer."""
# ruff: noqa: PLC0415  # sockets are for this command alone: the others' start does not load them

import os
import time
from typing import TYPE_CHECKING

from broker.wire.address import parse_address
from broker.wire.keys import ClientKeys
from millstream.cli.errors import CommandError

if TYPE_CHECKING:
    import zmq

ANSWER_S = 2.0


def ask(address: str, what: str, *, keys: ClientKeys | None, timeout_s: float = ANSWER_S) -> bytes:
    """The JSON that the broker at this address answers with.

    Raises CommandError: exit code 1 where none answers in time or it refuses, 2 where the two sides
    do not have the same keys.
    """
    import zmq

    from broker.wire.frames import encode
    from broker.wire.messages import PROTOCOL_VERSION, Ask

    place = parse_address(address)
    if place.path and not os.path.exists(place.path):
        raise _nobody(address)  # at once: without a socket file there is nothing to wait for
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.setsockopt(zmq.IDENTITY, b"c" + os.urandom(16))
        socket.setsockopt(zmq.IPV6, int(place.ipv6))
        if keys is not None:
            socket.curve_publickey = keys.public
            socket.curve_secretkey = keys.secret
            socket.curve_serverkey = keys.server
        with socket.get_monitor_socket(_handshake_failures()) as monitor:
            try:
                socket.connect(address)
                socket.send_multipart(encode(Ask(PROTOCOL_VERSION, what)))
                body = _answer(socket, timeout_s)
                if body is None:
                    raise _mismatch(monitor, address, keys) or _nobody(address)
            finally:
                # Before the monitor is closed: libzmq waits for ever to tell one that is not there.
                socket.disable_monitor()
    return body


def _answer(socket: "zmq.Socket[bytes]", timeout_s: float) -> bytes | None:
    """The first Report that comes in time; whatever else the broker says is passed over."""
    from broker.wire.errors import ProtocolError
    from broker.wire.frames import decode_from_broker
    from broker.wire.messages import Refused, Report

    end = time.monotonic() + timeout_s
    while (left_s := end - time.monotonic()) > 0 and socket.poll(int(left_s * 1000) + 1):
        try:
            message = decode_from_broker(socket.recv_multipart())
        except ProtocolError as error:
            raise CommandError(f"what answers there is no broker: {error}", code=1) from None
        if isinstance(message, Report):
            return message.body
        if isinstance(message, Refused):
            raise CommandError(f"the broker refuses: {message.reason}", code=1)
    return None


def _handshake_failures() -> int:
    import zmq

    return (
        zmq.EVENT_HANDSHAKE_FAILED_AUTH
        | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    )


def _mismatch(
    monitor: "zmq.Socket[bytes]", address: str, keys: ClientKeys | None
) -> CommandError | None:
    """What the failed handshakes say; None where there were none."""
    import zmq
    from zmq.utils.monitor import recv_monitor_message

    failed = set()
    while monitor.poll(0):
        failed.add(recv_monitor_message(monitor)["event"])
    if not failed:
        return None
    if keys is None:
        return CommandError(f"the broker at {address} wants keys; give --keys DIR")
    if zmq.EVENT_HANDSHAKE_FAILED_AUTH in failed:
        return CommandError(
            f"the broker at {address} does not let this client in: "
            "its client.public is missing from the clients/ of the broker's keys"
        )
    return CommandError(f"the broker at {address} has another broker.public than these keys")


def _nobody(address: str) -> CommandError:
    return CommandError(
        f"no broker answers at {address}; is it running? "
        "(--broker or MILLSTREAM_BROKER names another address)",
        code=1,
    )
