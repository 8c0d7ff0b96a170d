"""Whether a worker may be broken for good, by what came of its batches. Pure."""

from workers.execute import Done, has_result

USELESS = 3
"""After so many batches in a row that failed altogether a worker tries its example: a broken device
fails whatever it is given."""
USELESS_WITHOUT_EXAMPLE = 20
"""A worker that has no example gives up after so many: by then it is hardly the requests."""

ALONE_WITHOUT_EXAMPLE = 3
"""A worker without an example gives up when so many items in a row ran out of memory, each alone:
what holds its memory does not let go of it."""
ALONE = 20
"""So does one whose example still works after so many: examples are small, and a leak leaves room
for them longest."""


class Doubts:
    """What speaks against one worker."""

    def __init__(self, *, has_example: bool) -> None:
        """`has_example`: `forward` can be tried with something that is known to work."""
        self._most_useless = USELESS if has_example else USELESS_WITHOUT_EXAMPLE
        self._most_alone = ALONE if has_example else ALONE_WITHOUT_EXAMPLE
        self.is_short = False
        """Whether its memory, once it ran out, does not come back."""
        self._useless = 0  # batches in a row
        self._alone = 0  # items in a row that ran out of memory alone

    def note(self, done: Done) -> None:
        """A batch is done."""
        if done.useless:
            self._useless += 1
        elif self._useless and has_result(done.outcomes):
            self._useless = 0  # where all were rejected nothing is shown
        shortage = done.shortage
        if shortage.worked:
            self._alone = 0
        self._alone += shortage.alone
        self.is_short = shortage.is_broken or self._alone >= self._most_alone

    @property
    def are_grave(self) -> bool:
        """Whether it has to be found out if `forward` works at all."""
        return self._useless >= self._most_useless

    def dispel(self) -> None:
        """That has been found out."""
        self._useless = 0
