"""Speaks with the running broker over its own address: one question, or several in a row."""
# ruff: noqa: PLC0415  # sockets are for this command alone: the others' start does not load them

import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from broker.wire.address import parse_address
from broker.wire.keys import ClientKeys
from millstream.cli.errors import CommandError

if TYPE_CHECKING:
    from broker.wire.messages import Report

ANSWER_S = 2.0
MOST_FAILURES = 2
"""Handshakes that may fail without a reason. With another broker's key each does, ten a second."""


def ask(
    address: str,
    what: str,
    *,
    keys: ClientKeys | None,
    body: bytes = b"",
    timeout_s: float = ANSWER_S,
) -> bytes:
    """The JSON that the broker at this address answers with.

    Raises CommandError: exit code 1 where none answers in time or it refuses, 2 where the two sides
    do not have the same keys.
    """
    with Conversation(address, keys) as broker:
        broker.ask(what, body)
        report = broker.hear(timeout_s)
        if report is None:
            raise broker.silence()
        return accepted(report).body


def accepted(report: "Report") -> "Report":
    """The same, unless it says no: then it raises CommandError."""
    if report.code:
        raise CommandError(report.message, code=1)
    return report


class Conversation:
    """A socket to the broker at an address, for as long as the context lasts."""

    def __init__(self, address: str, keys: ClientKeys | None) -> None:
        """Raises CommandError where the address has no socket file: there is nobody to wait for."""
        self._address = address
        self._keys = keys
        self._place = parse_address(address)
        if self._place.path and not os.path.exists(self._place.path):
            raise self._nobody()
        self._stack = ExitStack()
        self._failures: list[int] = []

    def __enter__(self) -> Self:
        import zmq

        with ExitStack() as stack:
            context = stack.enter_context(zmq.Context())
            socket = self._socket = stack.enter_context(context.socket(zmq.DEALER))
            socket.linger = 0
            socket.setsockopt(zmq.IDENTITY, b"c" + os.urandom(16))
            socket.setsockopt(zmq.IPV6, int(self._place.ipv6))
            if (keys := self._keys) is not None:
                socket.curve_publickey = keys.public
                socket.curve_secretkey = keys.secret
                socket.curve_serverkey = keys.server
            self._monitor = stack.enter_context(socket.get_monitor_socket(_handshake_failures()))
            # Before the monitor is closed: libzmq waits for ever to tell one that is not there.
            stack.callback(socket.disable_monitor)
            socket.connect(self._address)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, what: str, body: bytes = b"", id: int = 0) -> None:
        """Put a question; what `hear` returns to it has its id, or 0 from an older broker.

        Raises CommandError where the two sides do not have the same keys, if that is plain now.
        """
        import zmq

        from broker.wire.frames import encode
        from broker.wire.messages import PROTOCOL_VERSION, Ask

        try:
            self._socket.send_multipart(encode(Ask(PROTOCOL_VERSION, what, body, id)), zmq.NOBLOCK)
        except zmq.Again:  # libzmq gives up a connection whose handshake has failed, for good
            raise self.silence() from None

    def hear(self, timeout_s: float) -> "Report | None":
        """The next Report that comes in time; whatever else the broker says is passed over.

        Raises CommandError where the broker refuses, is none, or does not shake hands.
        """
        import zmq

        from broker.wire.errors import ProtocolError
        from broker.wire.frames import decode_from_broker
        from broker.wire.messages import Refused, Report

        poller = zmq.Poller()
        for socket in (self._socket, self._monitor):
            poller.register(socket, zmq.POLLIN)
        end = time.monotonic() + timeout_s
        while (left_s := end - time.monotonic()) > 0:
            if self._socket not in dict(poller.poll(int(left_s * 1000) + 1)):
                if self._has_failed():
                    raise self.silence()
                continue
            try:
                message = decode_from_broker(self._socket.recv_multipart())
            except ProtocolError as error:
                raise CommandError(f"what answers there is no broker: {error}", code=1) from None
            if isinstance(message, Report):
                return message
            if isinstance(message, Refused):
                raise CommandError(f"the broker refuses: {message.reason}", code=1)
        return None

    def silence(self) -> CommandError:
        """Why nothing was heard, as far as failed handshakes tell."""
        import zmq

        self._has_failed()
        if not self._failures:
            return self._nobody()
        if self._keys is None:
            return CommandError(f"the broker at {self._address} wants keys; give --keys DIR")
        if zmq.EVENT_HANDSHAKE_FAILED_AUTH in self._failures:
            return CommandError(
                f"the broker at {self._address} does not let this client in: "
                "its client.public is missing from the clients/ of the broker's keys"
            )
        return CommandError(
            f"the broker at {self._address} has another broker.public than these keys"
        )

    def _has_failed(self) -> bool:
        """Whether handshakes fail, and not just one, as when a broker ends or begins."""
        import zmq
        from zmq.utils.monitor import recv_monitor_message

        while self._monitor.poll(0):
            self._failures.append(recv_monitor_message(self._monitor)["event"])
        without_reason = self._failures.count(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        return without_reason > MOST_FAILURES or without_reason < len(self._failures)

    def _nobody(self) -> CommandError:
        return CommandError(
            f"no broker answers at {self._address}; is it running? "
            "(--broker or MILLSTREAM_BROKER names another address)",
            code=1,
        )


def _handshake_failures() -> int:
    import zmq

    return (
        zmq.EVENT_HANDSHAKE_FAILED_AUTH
        | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    )
