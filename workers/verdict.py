"""Whether there is a point in going on: the script or the broker may not have it. Pure.

Only before the first worker is ready: after that neither a supervisor nor a version that it has
loaded is given up.
"""

from workers.task import Failed

EXIT_USAGE = 2
EXIT_FAILED = 3

TRIES = 3
"""Deaths without a word (os._exit, a signal) that each process may die before any was ready."""


class Verdict:
    """What is known so far about whether this script can work at all, or with one version."""

    def __init__(self, processes: int) -> None:
        self.exit_code: int | None = None
        """Set when there is no point in going on."""
        self.message = ""
        """Then why, in one line."""
        self.trace = ""
        """Then the script's own traceback, where it left one."""
        self.is_for_all = False
        """Then whether it would be the same with any other version."""
        self._deaths = [0] * processes
        self._first_failure: Failed | None = None
        self._was_warm = False
        self._was_welcome = False

    @property
    def was_warm(self) -> bool:
        """Whether any process has ever got through setup."""
        return self._was_warm

    @property
    def was_welcome(self) -> bool:
        """Whether a broker has ever taken in a worker that was ready."""
        return self._was_welcome

    def warm(self) -> None:
        """A worker has got through setup and warm-up."""
        self._was_warm = True

    def welcomed(self) -> None:
        """A broker has taken in a worker that is ready."""
        self._was_welcome = True

    def failed(self, index: int, failure: Failed) -> None:
        """A worker could not be loaded or set up."""
        if self._was_warm:
            return
        self._first_failure = self._first_failure or failure
        self._deaths[index] = TRIES
        if failure.while_loading:  # the same file will not load any better in another process
            self.is_for_all = True
            self._give_up(failure)
        else:
            self._weigh("")

    def died(self, index: int, how: str) -> None:
        """A worker died without having said why."""
        if not self._was_warm:
            self._deaths[index] += 1
            self._weigh(how)

    def refused(self, reason: str) -> None:
        """A broker will not have this supervisor or its workers."""
        if not self._was_welcome and self.exit_code is None:
            self.exit_code = EXIT_USAGE
            self.message = f"the broker refuses this worker: {reason}"
            self.is_for_all = True

    def give_up(self, message: str) -> None:
        """Nothing that could be tried has worked."""
        self._give_up(Failed(message, "", while_loading=False))

    def follow(self, other: "Verdict") -> None:
        """This one is a supervisor's own, the other one of a version of its: what that means."""
        self._was_warm |= other.was_warm
        self._was_welcome |= other.was_welcome
        is_late = self._was_welcome if other.exit_code == EXIT_USAGE else self._was_warm
        if other.is_for_all and not is_late and self.exit_code is None:
            self.exit_code, self.message, self.trace = other.exit_code, other.message, other.trace

    def _weigh(self, how: str) -> None:
        if min(self._deaths) < TRIES or self.exit_code is not None:
            return
        if self._first_failure is not None:
            self._give_up(self._first_failure)
        else:
            self.exit_code = EXIT_FAILED
            self.message = f"every worker process died {TRIES} times before it was ready ({how})"

    def _give_up(self, failure: Failed) -> None:
        if self.exit_code is None:
            self.exit_code = EXIT_FAILED
            self.message = failure.message
            self.trace = failure.trace
