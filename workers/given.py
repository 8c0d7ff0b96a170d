"""What a value is, in a few words, for the log: a kind, and of arrays the dtype and the shape."""

import re

_MOST = 4
_MOST_CHARS = 200
_DTYPES = re.compile(
    r"dtype|scalar type|"
    r"\b(Double|Float|Half|BFloat16|Long|Int|Byte|u?int\d+|float\d+)\b"
)
ADVICE = "the stage before gives another dtype than this one takes: convert where it is returned"


def described(value: object) -> str:
    """Such as `ndarray float64 (28, 28)`, or `dict of image: ndarray uint8 (28, 28)`."""
    return _described(value)[:_MOST_CHARS]


def is_about_dtype(summary: str) -> bool:
    """Whether an error complains of the dtype of something."""
    return _DTYPES.search(summary) is not None


def _described(value: object) -> str:
    kind = type(value).__name__
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and shape is not None:
        return f"{kind} {str(dtype).removeprefix('torch.')} {tuple(shape)}"
    if isinstance(value, dict) and value:
        parts = [f"{key}: {_described(part)}" for key, part in list(value.items())[:_MOST]]
        return f"{kind} of {', '.join(parts)}"
    if isinstance(value, list | tuple):
        return f"{kind} of {len(value)}{f' {_described(value[0])}' if value else ''}"
    if isinstance(value, str | bytes):
        return f"{kind} of {len(value)}"
    return kind
