"""What to install for an import that failed. Pure."""

import difflib
import re
from collections.abc import Iterable

_NO_MODULE = re.compile(r"No module named '([A-Za-z0-9_.]+)'")
_DISTRIBUTIONS = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
    "bs4": "beautifulsoup4",
    "dotenv": "python-dotenv",
    "dateutil": "python-dateutil",
    "google.protobuf": "protobuf",
    "faiss": "faiss-cpu",
    "fitz": "pymupdf",
    "serial": "pyserial",
    "jwt": "pyjwt",
    "torch": "millstream[torch]",
}
"""Where the name to install is not the name to import."""


def advice_for(text: str, beside: Iterable[str] = ()) -> str:
    """ ": pip install X" where a message, or a traceback, tells of a module that is not there.

    `beside` are the names of the modules that lie beside the script: one of them may be meant.
    """
    found = _NO_MODULE.findall(text)
    if not found:
        return ""
    module = found[-1]
    nearest = difflib.get_close_matches(module, list(beside), n=1, cutoff=0.75)
    if nearest:
        return f"; did you mean {nearest[0]}?"
    distribution = _DISTRIBUTIONS.get(module) or _DISTRIBUTIONS.get(module.partition(".")[0])
    return f": pip install {_quoted(distribution or module.partition('.')[0])}"


def _quoted(distribution: str) -> str:
    return f"'{distribution}'" if "[" in distribution else distribution
