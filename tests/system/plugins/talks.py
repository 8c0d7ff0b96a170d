"""Says something in every way that a plug-in has, each time that it runs."""

import ctypes
import logging
import os
import sys

from millstream import Worker


class Talks(Worker):
    """Does what the item says: `talk`, `flood`, or `abort`."""

    max_batch_size = 16

    def setup(self) -> None:
        """Print a line."""
        print("setting up")

    def forward(self, batch: list[str]) -> list[int]:
        """Return the size of the batch for each item."""
        for item in set(batch):
            if item == "abort":
                print("last wor", end="", flush=True)
                os.abort()
            if item == "flood":
                for number in range(100_000):
                    print("flood", number)
            if item == "talk":
                print("from python")
                sys.stderr.write("to stderr\n")
                libc = ctypes.CDLL(None)
                libc.puts(b"from C")
                libc.fflush(None)
                self.log.info("by its own log")
                logging.getLogger("library").warning("by a library's")
                logging.getLogger("library").debug("detail")
        return [len(batch)] * len(batch)
