"""Which batch a process had begun, read when it is dead."""

import os
import subprocess
import sys

from workers import mark

BEGIN = """
import os, sys
from workers.mark import Mark
mark = Mark(int(sys.argv[1]))
mark.begin(7, 1)
mark.begin(7, (1 << 64) - 1)
os._exit(9)
"""


def test_nothing_was_begun() -> None:
    fd = mark.create()
    assert mark.read(fd) == (0, 0)
    os.close(fd)


def test_the_last_one_that_was_begun_outlives_its_process() -> None:
    fd = mark.create()
    command = [sys.executable, "-c", BEGIN, str(fd)]
    assert subprocess.run(command, pass_fds=(fd,), check=False).returncode == 9
    assert mark.read(fd) == (7, (1 << 64) - 1)
    os.close(fd)
