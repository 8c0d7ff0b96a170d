"""What pieces of bodies have freed is kept for the next ones.

glibc gives the end of the heap back to the system as soon as 128 KiB of it are free, and takes it
anew, zeroed page by page, for the next piece that is read: uploads of 10 MB came at 70 a second so,
and at 200 where it is kept.
"""

KEPT_BYTES = 1 << 22
"""Twice as much is kept."""


def keep_freed() -> None:
    """To be called once, at the start. Does nothing where another malloc is used.

    glibc raises its thresholds to what was taken by a mapping of its own and is freed: see
    M_MMAP_THRESHOLD in mallopt(3).
    """
    bytes(KEPT_BYTES)
