"""Versions of the last two stages in the middle of it all: they come, get shares, are rolled back.

Model repositories on disk, and what is asked of the broker; each question in a thread of its own,
since a change waits for its versions, and a broker that stands still answers late or never.
"""

import json
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from random import Random

from millstream.cli.ask import ask
from millstream.cli.errors import CommandError
from tests.system.deployment import Deployment, wait_until

STAGES = ("second", "third")
OPTIONS = ("--keep-warm", "0", "--versions", "latest:1")
KEPT = 4
"""So many folders of each stage; whoever serves an older one goes on without."""
ANSWER_S = 3.0
LATEST_S = 45.0


class Rollouts:
    """See the module. What happens returns at once, with a word about it, or "" for nothing."""

    def __init__(self, mill: Deployment, seed: int) -> None:
        self._mill = mill
        self._chance = Random(seed)
        self._newest = 0
        self._threads: list[threading.Thread] = []
        for stage in STAGES:
            self._folder(stage).mkdir(parents=True)
        self.come()

    def options(self, stage: str) -> Sequence[str]:
        """What the command of a stage's supervisor is given beside."""
        if stage not in STAGES:
            return ()
        return ("--models", str(self._folder(stage)), "--stage", stage, *OPTIONS)

    def _folder(self, stage: str) -> Path:
        return self._mill.folder / "models" / stage

    # -------------------------------------------------------------- what happens

    def come(self) -> str:
        """A new version, made elsewhere and moved into place; "" where the disk is full."""
        self._newest += 1
        try:
            for stage in STAGES:
                self._put(stage)
        except OSError:
            return ""
        return f"version {self._newest}"

    def _put(self, stage: str) -> None:
        made = self._mill.folder / f"made-{stage}-{self._newest}"
        made.mkdir()
        (made / "READY").touch()
        made.rename(self._folder(stage) / str(self._newest))
        shutil.rmtree(self._folder(stage) / str(self._newest - KEPT), ignore_errors=True)

    def roll_back(self) -> str:
        """Whoever was the last to take over, or is tried out, is rejected."""
        return self._ask("rollback", why="chaos")

    def change(self) -> str:
        """Shares, a promotion, a shadow, or the newest again."""
        new, old = str(self._newest), str(max(1, self._newest - 1))
        changes: list[tuple[str, dict[str, object]]] = [
            ("traffic", {"weights": {old: 50, new: 50}}),
            ("traffic", {"weights": {new: 1}}),
            ("traffic", {"shadow": new}),
            ("traffic", {"shadow": "", "latest": True}),
            ("promote", {"version": new, "steps": [10, 50, 100], "every_s": 0.5}),
        ]
        what, body = self._chance.choice(changes)
        return self._ask(what, **body)

    def _ask(self, what: str, **body: object) -> str:
        thread = threading.Thread(target=self._try, args=(what, body), daemon=True)
        self._threads.append(thread)
        thread.start()
        return " ".join([what, *(f"{key}={value}" for key, value in body.items())])

    def _try(self, what: str, body: dict[str, object]) -> bytes:
        """The broker's answer; b"" where there is none, or it is a no."""
        about = json.dumps({"pipeline": "chain", **body}).encode()
        try:
            return ask(self._mill.address, what, keys=None, body=about, timeout_s=ANSWER_S)
        except CommandError:
            return b""

    # -------------------------------------------------------------- the end

    def settle(self) -> None:
        """One last version takes over, and is soon alone. AssertionError where it does not."""
        for thread in self._threads:
            thread.join()
        assert self.come(), "nothing fills the disk any more"
        wait_until(self._takes_over, LATEST_S, f"version {self._newest} takes over")

    def _takes_over(self) -> bool:
        self._try("traffic", {"latest": True, "shadow": ""})
        told = self._try("traffic", {})
        return bool(told) and json.loads(told)["weights"] == {str(self._newest): 100.0}
