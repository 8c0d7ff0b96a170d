"""The deployment's folder of arenas, as the broker keeps it: made, swept, read from, left.

It tells the living from the dead by their locks, and copies bytes out for peers that cannot read
them here. Who holds what is the core's to know, and what the bytes mean is nobody's here.
"""

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from broker.payload.arena import HEADER, HEADER_BYTES
from broker.payload.folder import ArenaError, ArenaFolder
from broker.wire import log
from broker.wire.errors import ErrorCode
from broker.wire.frames import refs_of
from broker.wire.messages import (
    Answer,
    Answers,
    Batch,
    BatchItem,
    Blob,
    Compare,
    Failure,
    FromBroker,
    Outcome,
    Pair,
    Ref,
)


class Arenas:
    """The arenas of one deployment on this host, or none where the host cannot have them."""

    def __init__(self, folder: ArenaFolder | None) -> None:
        self._folder = folder

    @classmethod
    def open(cls, name: str) -> "Arenas":
        """Make the folder of this name, or take over what an earlier broker left of it, swept.

        For the one broker of the deployment. Where the host has no shared memory for us the log
        says why, and payloads travel in frames.
        """
        try:
            folder = ArenaFolder.make(name)
        except ArenaError as error:
            log.warning("no shared memory: large payloads go through sockets", reason=str(error))
            return cls(None)
        folder.remove_unborn()
        arenas = cls(folder)
        arenas.sweep(needed=(), doubtful=())
        return arenas

    @property
    def name(self) -> str:
        """What `Welcome` calls the folder; "" where there is none."""
        return self._folder.name if self._folder is not None else ""

    @property
    def token(self) -> str:
        """Whoever can read this there shares the host; "" where there is no folder."""
        return self._folder.token if self._folder is not None else ""

    def sweep(
        self, *, needed: Collection[int], doubtful: Collection[int]
    ) -> tuple[list[int], list[int]]:
        """Whose owners are dead, of the arenas that have a file and of the doubtful ones; and the
        arenas of the living.

        The files of the dead are removed, but for those that somebody may still need.
        """
        folder = self._folder
        if folder is None:
            return list(doubtful), []  # nobody owns an arena, nor could look into one
        dead, alive = [], []
        for arena in {*folder.arenas(), *doubtful}:
            if not folder.is_dead(arena):
                alive.append(arena)
                continue
            dead.append(arena)
            if arena not in needed:
                folder.remove(arena)
        return dead, alive

    def fetch(self, message: FromBroker) -> FromBroker:
        """The same message with bytes in the place of references, for a peer without our memory.

        The message itself stays as it is: its payloads belong to items that may be sent again. In a
        batch, what cannot be read stays a reference, which its receiver answers with PAYLOAD_LOST,
        and likewise in a pair of answers; an answer that cannot be read is a failure.
        """
        with _Reader(self._folder) as reader:
            if isinstance(message, Batch):
                items = [_with_bytes(item, reader) for item in message.items]
                return replace(message, items=items)
            if isinstance(message, Answers):
                answers = [_answer_with_bytes(answer, reader) for answer in message.answers]
                return replace(message, answers=answers)
            if isinstance(message, Compare):
                pairs = [_pair_with_bytes(pair, reader) for pair in message.pairs]
                return replace(message, pairs=pairs)
        return message

    def close(self) -> None:
        """The broker ends. Left is what living peers own, the last of whom removes the rest."""
        folder = self._folder
        if folder is not None:
            folder.leave()
            folder.close()
            folder.leave()  # a peer that left in between had relied on us


def _with_bytes(item: BatchItem, reader: "_Reader") -> BatchItem:
    payload = item.payload
    if isinstance(payload, Blob) and payload.refs:
        return replace(item, payload=reader.fill(payload))
    return item


def _answer_with_bytes(answer: Answer, reader: "_Reader") -> Answer:
    outcome: Outcome = answer.outcome
    if not isinstance(outcome, Blob) or not outcome.refs:
        return answer
    outcome = reader.fill(outcome)
    if refs_of(outcome):
        outcome = Failure(ErrorCode.WORKER_LOST, "its result was lost with the worker that held it")
    return replace(answer, outcome=outcome)


def _pair_with_bytes(pair: Pair, reader: "_Reader") -> Pair:
    both = [
        reader.fill(payload) if isinstance(payload, Blob) and payload.refs else payload
        for payload in (pair.stable, pair.shadow)
    ]
    return replace(pair, stable=both[0], shadow=both[1])


class _Reader:
    """Reads slots out of arenas, each of which it opens once. A context manager."""

    def __init__(self, folder: ArenaFolder | None) -> None:
        self._folder = folder
        self._files: dict[int, int] = {}

    def __enter__(self) -> "_Reader":
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._files.values():
            if fd >= 0:
                os.close(fd)

    def fill(self, payload: Blob) -> Blob:
        """The payload with bytes for those of its references that can be read."""
        buffers: list[object] = []
        refs: list[Ref | None] = []
        for buffer, ref in zip(payload.buffers, payload.refs, strict=True):
            data = self._read(ref) if ref is not None else None
            buffers.append(buffer if ref is None else data)
            refs.append(ref if data is None else None)
        return replace(payload, buffers=buffers, refs=refs if any(refs) else [])

    def _read(self, ref: Ref) -> bytes | None:
        """A copy of the bytes; None where the slot is not what the reference says."""
        fd = self._file(ref.arena)
        if fd < 0:
            return None
        start = ref.slot + HEADER_BYTES + ref.start
        end = start + ref.length
        if end > os.fstat(fd).st_size:  # before so much memory is asked for
            return None
        generation, length = HEADER.unpack(os.pread(fd, HEADER.size, ref.slot))
        if generation != ref.generation or ref.start + ref.length > length:
            return None
        parts = []
        while start < end and (part := os.pread(fd, end - start, start)):
            parts.append(part)
            start += len(part)
        return b"".join(parts) if start == end else None

    def _file(self, arena: int) -> int:
        """A descriptor of the arena's file; -1 where there is none."""
        fd = self._files.get(arena)
        if fd is None:
            fd = -1 if self._folder is None else _open(self._folder.arena_path(arena))
            self._files[arena] = fd
        return fd


def _open(path: Path) -> int:
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
    return -1
