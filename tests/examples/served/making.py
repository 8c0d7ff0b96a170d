"""Runs scripts that make models as `python SCRIPT` does, each in its own folder and process.

    python making.py ../../../examples/llm/make_model.py ../../../examples/jax/convert.py

The processes are copies of this one, which has loaded what several of them need: to load torch and
transformers takes longer than most of the scripts. Exits 1 where one of them fails.
"""

import importlib
import os
import runpy
import sys
import traceback
from pathlib import Path

SHARED = ("torch", "transformers.modeling_utils")


def main() -> int:
    scripts = [Path(argument).resolve() for argument in sys.argv[1:]]
    texts = [script.read_text() for script in scripts]
    for module in SHARED:
        if sum(module.partition(".")[0] in text for text in texts) > 1:
            importlib.import_module(module)
    children = {start(script): script for script in scripts}
    failed = [pid for pid, status in (os.wait() for _ in children) if status]
    for pid in failed:
        sys.stderr.write(f"failed: {children[pid]}\n")
    return 1 if failed else 0


def start(script: Path) -> int:
    """The process that runs it."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        os.chdir(script.parent)
        sys.argv = [str(script)]
        sys.path[0] = str(script.parent)
        runpy.run_path(str(script), run_name="__main__")
        code = 0
    except BaseException:  # SystemExit as well: no script says so that all is well
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # what this process does at its end is for its parent to do


if __name__ == "__main__":
    sys.exit(main())
