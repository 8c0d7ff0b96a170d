"""What plug-in scripts import: `Worker`, `Reject`, `RequestInfo`. Light: no sockets, no torch.

`Staging` as well, which is what `Worker.to_device` uses: asked for by name, it imports torch.
"""

from typing import TYPE_CHECKING

from workers.api import Reject, RequestInfo, Worker

__version__ = "0.1.0"

__all__ = ["Reject", "RequestInfo", "Worker", "__version__"]

if TYPE_CHECKING:
    from workers.staging import Staging as Staging
else:

    def __getattr__(name: str) -> object:
        if name != "Staging":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from workers.staging import Staging  # noqa: PLC0415  imports torch

        return Staging
