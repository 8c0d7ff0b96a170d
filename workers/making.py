"""The one instance of a plug-in that a process has: how it is made, and what it is told before
`setup`. Calls nothing of it but its constructor.
"""

import inspect
from pathlib import Path
from typing import Any

from workers import checks
from workers.api import Worker
from workers.checks import Shape
from workers.loader import LoadError, trimmed_trace
from workers.whereabouts import where


def make(cls: type[Worker]) -> tuple[Worker, Shape]:
    """An instance of a plug-in, and its shape so far. Raises LoadError."""
    try:
        plugin = cls()
        return plugin, checks.shape_of(plugin)
    except checks.ContractError as error:
        raise LoadError(f"{where(cls, error.hook)}: {error}") from None
    except BaseException as error:
        message = f"{cls.__name__}() raised {type(error).__name__}: {error}"
        raise LoadError(message, trimmed_trace(error)) from None


def settle(
    plugin: Worker, *, folder: Path, device: str, version: str, index: int, model_dir: str
) -> None:
    """Tell it where and as what it runs. `folder` is its script's; `model_dir` may be ""."""
    plugin.device = device
    plugin.version = version
    plugin.index = index
    plugin.model_dir = Path(model_dir).resolve() if model_dir else folder / "model"


def count(plugin: Worker, *, on: bool) -> None:
    """Whether what its own metrics are told is counted: of the warm-up it is not."""
    if plugin._metrics is not None:
        plugin._metrics.is_counting = on


async def maybe(returned: Any) -> None:
    """The hooks of a plug-in that has an event loop may be coroutines."""
    if inspect.isawaitable(returned):
        await returned
