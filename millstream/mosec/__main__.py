"""`python -m millstream.mosec`: prints the folder that has a `mosec` which is this package.

For what starts scripts by itself: PYTHONPATH=$(python -m millstream.mosec) python script.py
"""

from pathlib import Path

if __name__ == "__main__":
    print(Path(__file__).resolve().parent / "shim")  # noqa: T201
