"""Its process ends during setup, in the way that its environment names."""

import os
import signal
import sys
from typing import Any

from millstream import Worker


class SetupExits(Worker):
    def setup(self) -> None:
        how = os.environ["HOW"]
        if how == "sys.exit":
            sys.exit(1)
        if how == "os._exit":
            os._exit(1)
        os.kill(os.getpid(), signal.SIGKILL)

    def forward(self, batch: list[Any]) -> list[Any]:
        return batch
