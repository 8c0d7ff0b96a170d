"""Three stages that do next to nothing, and a few bad things when an item asks for it.

They sleep for some milliseconds, so that whoever is killed was nearly always at something, while
clients that never pause leave most of the processor free; and they import numpy with the first
array, since most of them never see one.
"""

import ctypes
import os
import signal
import time
from typing import Any

from millstream import Worker

MADE = "int64"
UPLOADED = ">u8"


class Poisoned(Exception):
    """What an item asked for."""


class Stage(Worker):
    """Passes items on. `do` names a misdeed, `at` the stage for it.

    An item is an object, in which the stages that it has passed are counted; or an array, which the
    first stage makes where an object asks for one, or finds in an upload.
    """

    stage = "any"
    nap_s = 0.008
    max_batch_size = 16

    def setup(self) -> None:
        """Where there are versions, the warm-up comes before anything real."""
        self.is_warm = self.was_warm = False
        if self.version:
            self.example = {"n": 0}

    def forward(self, batch: list[Any]) -> list[Any]:
        """Each item, one stage further."""
        time.sleep(self.nap_s)
        self.was_warm, self.is_warm = self.is_warm, True
        for item in batch:
            if isinstance(item, dict) and item.get("at") == self.stage:
                self._misbehave(item["do"])
        return [self._pass_on(item) for item in batch]

    def _pass_on(self, item: Any) -> Any:
        if not isinstance(item, dict):
            return item
        return self._signed({**item, "stages": item.get("stages", 0) + 1})

    def _signed(self, item: dict[str, Any]) -> dict[str, Any]:
        """Where there are versions, an object names those that it has passed, and which of them
        were not warm by then: workers that nobody should have asked yet.
        """
        if not self.version:
            return item
        mine = self.version if self.was_warm else f"{self.version}, cold"
        return {**item, "by": [*item.get("by", ()), mine]}

    def _misbehave(self, how: str) -> None:
        if how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "segfault":
            ctypes.string_at(0)
        elif how == "hang":
            time.sleep(60.0)
        elif how == "raise":
            raise Poisoned("as the item wished")
        elif how == "memory":
            raise MemoryError("as the item wished")


class First(Stage):
    """Quick. An object with a `size` becomes an array full of its number."""

    stage = "first"

    def _pass_on(self, item: Any) -> Any:
        if isinstance(item, dict) and "size" not in item:
            return super()._pass_on(item)
        import numpy as np  # noqa: PLC0415  see the module

        if isinstance(item, bytes):
            return np.frombuffer(item, UPLOADED)
        return np.full(item["size"], item["n"], MADE)


class Second(Stage):
    """Slower, in larger batches. Adds one to arrays that were made, and passes uploads on."""

    stage = "second"
    nap_s = 0.016
    max_batch_size = 32

    def _pass_on(self, item: Any) -> Any:
        if isinstance(item, dict):
            return super()._pass_on(item)
        return item + 1 if item.dtype == MADE else item


class Third(Stage):
    """The quickest. Of an array it tells the number and the sum, -1 where it is not of one kind."""

    stage = "third"
    nap_s = 0.004

    def _pass_on(self, item: Any) -> Any:
        if isinstance(item, dict):
            return super()._pass_on(item)
        number = int(item[0]) - (item.dtype == MADE)
        is_whole = bool((item == item[0]).all())
        return self._signed({"n": number, "sum": int(item.sum()) if is_whole else -1, "stages": 3})
