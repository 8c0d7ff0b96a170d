"""Where commands are served: who asked what, what has to be kept first, and what they are told.

Between the router, the core and the store: it owns no socket, and decides nothing about traffic.
"""

from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from broker.core.events import Recall, Save
from broker.core.snapshot import Extent, Snapshot
from broker.store import Done, Store, Told
from broker.wire import log
from broker.wire.errors import ErrorCode
from broker.wire.messages import Ask, FromBroker, Report

_ID_BYTES = 9
"""Any integer of msgpack, with its sign."""


class Desk:
    """Those who ask are known to the core by a name that this gives them, and takes apart again."""

    def __init__(self, store: Store, epoch: int) -> None:
        self._store = store
        self._epoch = epoch
        self._trouble = ""

    @property
    def fd(self) -> int:
        """Readable when there is news."""
        return self._store.fd

    @property
    def finished(self) -> Collection[object]:
        """Not empty while `news` has something."""
        return self._store.finished

    def extent(self, ask: Ask) -> Extent | Report:
        """How much of the past `status` is asked for; or what is wrong with the question."""
        try:
            return msgspec.json.decode(ask.body or b"{}", type=Extent)
        except msgspec.MsgspecError as error:
            return Report(self._epoch, b"", ErrorCode.BAD_REQUEST, str(error), ask.id)

    def status(self, snapshot: Snapshot, ask: Ask) -> Report:
        """The answer to `status`."""
        snapshot = replace(
            snapshot, traffic_file=self._store.file, traffic_trouble=self._store.trouble
        )
        return Report(self._epoch, msgspec.json.encode(snapshot), id=ask.id)

    def name(self, peer: bytes, ask: Ask) -> bytes:
        """What the core knows this asker by."""
        return ask.id.to_bytes(_ID_BYTES, "big", signed=True) + peer

    def address(self, asker: bytes, message: FromBroker) -> tuple[bytes, FromBroker]:
        """To which peer this goes, and with the id of its question."""
        if type(message) is Report:
            id = int.from_bytes(asker[:_ID_BYTES], "big", signed=True)
            message = replace(message, id=id)
        return asker[_ID_BYTES:], message

    def keep(self, action: Save) -> None:
        """Write the traffic down; whoever asked for the change is told then."""
        self._store.save(action.pipeline, action.traffic, action.change, action)

    def recall(self, action: Recall) -> None:
        """Read the history for whoever asks for it."""
        self._store.tell(action.pipeline, action.limit, action)

    def news(self) -> list[tuple[bytes, FromBroker]]:
        """What the store has done since, as messages to peers."""
        return self._told(self._store.done())

    def close(self) -> list[tuple[bytes, FromBroker]]:
        """End the store; returns the last news."""
        return self._told(self._store.close())

    def _told(self, all_done: list[Done]) -> list[tuple[bytes, FromBroker]]:
        news = []
        for done in all_done:
            action = done.token
            if isinstance(done, Told):
                assert isinstance(action, Recall)
                news.append(self.address(action.asker, self._history(action, done)))
                continue
            assert isinstance(action, Save)
            self._note(done.trouble)
            if action.report is not None:
                report = action.report
                if done.trouble:
                    why = f"in force, but not kept for a restart of the broker: {done.trouble}"
                    report = replace(report, message=why)
                news.append(self.address(action.reply_to, report))
        return news

    def _history(self, action: Recall, told: Told) -> Report:
        if told.trouble:
            return Report(self._epoch, b"", ErrorCode.NOT_READY, told.trouble)
        body = {"pipeline": action.pipeline, "changes": told.entries}
        return Report(self._epoch, msgspec.json.encode(body))

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("traffic_not_kept", reason=trouble)
        elif self._trouble and not trouble:
            log.info("traffic_kept_again", file=self._store.file)
        self._trouble = trouble
