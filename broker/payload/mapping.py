"""The arenas of others, as this process sees them: mapped once, read-only, nothing copied.

Every slot that is looked at has one root array. Whatever is made of a view of it (arrays, slices,
tensors) keeps the root alive, so its end tells that nobody here looks at the slot any longer.
"""

import mmap
import os
import stat
import weakref
from bisect import bisect_left, bisect_right, insort
from collections import deque
from typing import Any

import numpy as np

from broker.payload.allocator import ALIGNMENT_BYTES
from broker.payload.arena import HEADER, HEADER_BYTES
from broker.payload.errors import PayloadLost
from broker.payload.folder import ArenaFolder
from broker.wire.messages import Ref, SlotKey


class _Root(weakref.ref[Any]):
    """A root array's weak reference, that knows which slot it was."""

    __slots__ = ("key", "offset", "size_bytes")
    key: SlotKey
    offset: int
    size_bytes: int


class _File:
    """One arena's file, mapped."""

    __slots__ = ("base", "file", "map", "offsets", "roots", "size_bytes")

    def __init__(self, file: int) -> None:
        """Takes `file` over. Raises OSError, and ValueError for a file that cannot be mapped."""
        self.file = file
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid():
            raise ValueError("not a file of ours")
        self.map = mmap.mmap(file, about.st_size, access=mmap.ACCESS_READ)
        self.size_bytes = about.st_size
        self.base: int = np.frombuffer(self.map, np.uint8).__array_interface__["data"][0]
        self.roots: dict[int, _Root] = {}  # by the offset of their slot
        self.offsets: list[int] = []  # the same offsets, in order

    def __del__(self) -> None:
        os.close(self.file)  # the map lives on, with the arrays over it

    @property
    def is_linked(self) -> bool:
        return os.fstat(self.file).st_nlink > 0

    def read_header(self, offset: int) -> tuple[int, int]:
        """Generation and length as they stand at this offset; zeros where no slot can be."""
        if offset < 0 or offset % ALIGNMENT_BYTES or offset + HEADER_BYTES > self.size_bytes:
            return 0, 0
        # Not read through the map: where a slot is gone there may be no page, and to touch one
        # that the system cannot give would be a SIGBUS.
        generation, length = HEADER.unpack(os.pread(self.file, HEADER.size, offset))
        return generation, length

    def add(self, root: _Root) -> None:
        if root.offset not in self.roots:
            insort(self.offsets, root.offset)
        self.roots[root.offset] = root

    def discard(self, root: _Root) -> None:
        if self.roots.get(root.offset) is root:
            del self.roots[root.offset]
            del self.offsets[bisect_left(self.offsets, root.offset)]

    def around(self, position: int) -> _Root | None:
        """The slot looked at that begins at this position of the file, or before it."""
        index = bisect_right(self.offsets, position) - 1
        return self.roots[self.offsets[index]] if index >= 0 else None


class Mappings:
    """What this process looks at in the arenas of one folder.

    `ended`: the slots of which the last view has died, appended by whichever thread let go of it.
    One may have been looked at anew since: ask `living` before you believe it.

    Everything else is for one thread at a time.
    """

    def __init__(self, folder: ArenaFolder) -> None:
        self.ended: deque[SlotKey] = deque()
        self._folder = folder
        self._files: dict[int, _File] = {}
        self._roots: dict[SlotKey, _Root] = {}
        self._dead: deque[_Root] = deque()  # filled like `ended`, emptied by `_clean`

    def view(self, ref: Ref) -> memoryview:
        """The bytes of a reference, read-only; the slot counts as looked at while they live.

        Raises PayloadLost.
        """
        if self._dead:
            self._clean()
        root = self._roots.get((ref.arena, ref.generation))
        array = None if root is None or root.offset != ref.slot else root()
        if array is None:
            array = self._look_at(ref)
        if not 0 <= ref.start <= ref.start + ref.length <= array.nbytes:
            raise PayloadLost(f"a reference beyond the {array.nbytes} bytes of its slot")
        return memoryview(array)[ref.start : ref.start + ref.length]

    def living(self, key: SlotKey) -> bool:
        """Whether a view of this slot is alive."""
        root = self._roots.get(key)
        return root is not None and root() is not None

    def find(self, address: int, size_bytes: int) -> Ref | None:
        """Where these bytes of this process lie in a slot that is looked at, if they do.

        None also where others could not follow the reference, since the arena has no name any more.
        """
        if self._dead:
            self._clean()
        for arena, file in self._files.items():
            position = address - file.base
            if not 0 <= position < file.size_bytes:
                continue
            root = file.around(position)
            if root is None or not file.is_linked:
                return None
            start = position - root.offset - HEADER_BYTES
            if start < 0 or start + size_bytes > root.size_bytes:
                return None
            return Ref(arena, root.offset, root.key[1], start, size_bytes)
        return None

    def _look_at(self, ref: Ref) -> Any:
        """The root array over the slot of a reference."""
        file = self._files.get(ref.arena) or self._open(ref.arena)
        generation, length = file.read_header(ref.slot)
        start = ref.slot + HEADER_BYTES
        if generation != ref.generation or not 0 < length <= file.size_bytes - start:
            raise PayloadLost(f"slot {ref.generation} of arena {ref.arena:016x} is gone")
        array = np.frombuffer(file.map, np.uint8, length, start)
        root = _Root(array, self._on_end)
        root.key = (ref.arena, generation)
        root.offset = ref.slot
        root.size_bytes = length
        self._roots[root.key] = root
        file.add(root)
        return array

    def _on_end(self, root: Any) -> None:
        """Runs wherever the last view is let go of: in any thread, between any two lines here."""
        self.ended.append(root.key)
        self._dead.append(root)

    def _clean(self) -> None:
        while self._dead:
            root = self._dead.popleft()
            if self._roots.get(root.key) is root:
                del self._roots[root.key]
            file = self._files.get(root.key[0])
            if file is not None:
                file.discard(root)

    def _open(self, arena: int) -> _File:
        self._close_unlinked()
        path = self._folder.arena_path(arena)
        try:
            file = _File(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))
        except (OSError, ValueError) as error:
            raise PayloadLost(f"arena {arena:016x} cannot be mapped: {error}") from None
        self._files[arena] = file
        return file

    def _close_unlinked(self) -> None:
        """Let go of arenas that have no name any more, and that nobody here looks at."""
        for arena, file in list(self._files.items()):
            if not file.roots and not file.is_linked:
                del self._files[arena]
