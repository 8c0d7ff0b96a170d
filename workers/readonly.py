"""What to say when a plug-in wrote into what it was given: those arrays are read-only.

Knows the words in which numpy, and what is built on it, complain of that; nothing of the runtime.
"""

import re

NOTE = (
    "What comes from the client or from the stage before is read-only: a view of shared memory,"
    " which others may be reading. To change an array, change a copy of it: array.copy()"
)

_SIGNS = re.compile(
    r"read-only"  # numpy and Cython: "assignment destination is …", "buffer source array is …"
    r"|WRITEABLE flag"  # numpy: "cannot set WRITEABLE flag to True of this array"
    r"|does not own its data"  # numpy's resize
    r"|array marked as readonly"  # OpenCV
)
# Where those words speak of something else: "Read-only file system", a property without a setter.
_OTHERS = (OSError, AttributeError)


def note_readonly(error: BaseException) -> None:
    """Adds `NOTE` to an exception that says that something is read-only. Raises nothing."""
    try:
        if isinstance(error, _OTHERS) or _SIGNS.search(str(error)) is None:
            return
        if NOTE not in getattr(error, "__notes__", ()):
            error.add_note(NOTE)
    except Exception:  # an exception of a plug-in may do anything when it is looked at
        return
