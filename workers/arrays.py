"""numpy's own memory, taken from an arena: arrays that a plug-in makes are where they are to go.

While it is on, numpy asks us for the memory of new arrays (NEP 49, https://numpy.org/neps/nep-0049-data-allocation-strategies.html),
so that a result need not be copied into the arena: it was made there. Small arrays
still come from malloc, but by way of Python, which costs about 3 µs each; so whoever turns this on
has to see that it pays. An array frees its memory where it got it, whenever and in whichever thread
that is, also at the very end of the process: nothing here may ever go away.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

_SET_HANDLER = 304  # its place in numpy's table of C functions, fixed since 1.22
_NAME = b"mem_handler"  # numpy asks capsules for it

_MALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_CALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_REALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Allocator(ctypes.Structure):
    """PyDataMemAllocator."""

    _fields_ = (
        ("ctx", ctypes.c_void_p),
        ("malloc", _MALLOC),
        ("calloc", _CALLOC),
        ("realloc", _REALLOC),
        ("free", _FREE),
    )


class _Handler(ctypes.Structure):
    """PyDataMem_Handler."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("allocator", _Allocator),
    )


class ArrayMemory:
    """Where numpy gets the memory of arrays from `from_bytes` on while this is on.

    For the main thread; numpy keeps the setting apart for each context.
    """

    def __init__(
        self,
        take: Callable[[int], int],
        give_back: Callable[[int], bool],
        size_of: Callable[[int], int],
        *,
        from_bytes: int,
    ) -> None:
        """`take` returns the address of so many bytes, or 0 where it has none. `give_back` is given
        the address of any memory that is freed, in any thread, and says whether it was of `take`;
        `size_of` says how large that was, 0 for other memory.
        """
        self.calls = 0
        """How often numpy has asked for memory."""
        self._take = take
        self._give_back = give_back
        self._size_of = size_of
        self._from_bytes = from_bytes
        self._libc = _libc()
        self._set = _set_handler()
        self._others: Any = None  # numpy's own, while ours is on
        self._handler = _Handler(
            b"millstream",
            1,
            _Allocator(
                None,
                _MALLOC(self._malloc),
                _CALLOC(self._calloc),
                _REALLOC(self._realloc),
                _FREE(self._free),
            ),
        )
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self._capsule = new_capsule(ctypes.addressof(self._handler), _NAME, None)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))  # see the module: for ever

    @classmethod
    def make(
        cls,
        take: Callable[[int], int],
        give_back: Callable[[int], bool],
        size_of: Callable[[int], int],
        *,
        from_bytes: int,
    ) -> "ArrayMemory | None":
        """The same, tried out first; None where this numpy does not do it."""
        try:
            memory = cls(take, give_back, size_of, from_bytes=from_bytes)
            memory.on()
            try:
                probe = np.zeros(4, np.uint8)
            finally:
                memory.off()
        except Exception:  # whatever it is, arrays can be copied
            return None
        worked = memory.calls == 1 and not probe.any()
        return memory if worked else None

    def on(self) -> None:
        """New arrays come from here."""
        self._others = self._set(self._capsule)

    def off(self) -> None:
        """New arrays come from where numpy has them by itself."""
        self._set(self._others)

    # -------------------------------------------------------------- what numpy calls

    def _malloc(self, _context: int, size_bytes: int) -> int | None:
        self.calls += 1
        if size_bytes >= self._from_bytes and (address := self._take(size_bytes)):
            return address
        other: int | None = self._libc.malloc(size_bytes)
        return other

    def _calloc(self, _context: int, count: int, each_bytes: int) -> int | None:
        self.calls += 1
        size_bytes = count * each_bytes
        if size_bytes >= self._from_bytes and (address := self._take(size_bytes)):
            ctypes.memset(address, 0, size_bytes)
            return address
        other: int | None = self._libc.calloc(count, each_bytes)
        return other

    def _realloc(self, context: int, address: int | None, size_bytes: int) -> int | None:
        before = self._size_of(address) if address else 0
        if not before:
            self.calls += 1
            moved: int | None = self._libc.realloc(address, size_bytes)
            return moved
        moved = self._malloc(context, size_bytes)
        if moved and address:
            ctypes.memmove(moved, address, min(before, size_bytes))
            self._give_back(address)
        return moved

    def _free(self, _context: int, address: int | None, _size_bytes: int) -> None:
        if address and not self._give_back(address):
            self._libc.free(address)


def _libc() -> Any:
    libc = ctypes.CDLL(None)
    for name, arguments in (
        ("malloc", [ctypes.c_size_t]),
        ("calloc", [ctypes.c_size_t, ctypes.c_size_t]),
        ("realloc", [ctypes.c_void_p, ctypes.c_size_t]),
    ):
        function = getattr(libc, name)
        function.restype = ctypes.c_void_p
        function.argtypes = arguments
    libc.free.restype = None
    libc.free.argtypes = [ctypes.c_void_p]
    return libc


def _set_handler() -> Callable[[Any], Any]:
    """PyDataMem_SetHandler, found as C extensions find it; it returns the handler before."""
    table = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    functions = ctypes.cast(pointer_of(table, None), ctypes.POINTER(ctypes.c_void_p))
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(functions[_SET_HANDLER])
