"""What plug-in scripts import: `Worker`, `Reject`, `RequestInfo`, and `Tensor`, `Classify` and
`Regress` to declare with. Light: no sockets, no torch.

`Staging` as well, which is what `Worker.to_device` uses: asked for by name, it imports torch. And
`Client` and `AsyncClient`, which call a gateway, and `write_reference`, for after a training; what
they need is imported with the name.
"""

import sys
from typing import TYPE_CHECKING

try:
    from workers.api import Classify, Regress, Reject, RequestInfo, Tensor, Worker
    from workers.functions import stage
except ModuleNotFoundError as error:
    # A script's own folder comes first where that is run itself.
    hidden, dot, _ = (error.name or "").partition(".")
    if not dot or hidden not in ("workers", "broker"):
        raise
    raise ImportError(
        f"a module of yours is called {hidden!r}, as a package of Millstream is, and hides it: "
        f"rename {sys.modules[hidden].__file__ or hidden}"
    ) from None

__version__ = "0.1.0"

__all__ = [
    "AsyncClient", "Classify", "Client", "Pipeline", "Regress", "Reject", "RequestInfo", "Tensor",
    "Worker", "__version__", "serve", "stage", "write_reference",
]  # fmt: skip

if TYPE_CHECKING:
    from millstream.client import AsyncClient as AsyncClient
    from millstream.client import Client as Client
    from millstream.local.declare import Pipeline as Pipeline
    from millstream.local.serving import serve as serve
    from workers.observations import write_reference as write_reference
    from workers.staging import Staging as Staging
else:

    def __getattr__(name: str) -> object:
        # ruff: noqa: PLC0415
        if name == "Staging":
            from workers.staging import Staging

            return Staging
        if name == "Client":
            from millstream.client import Client

            return Client
        if name == "AsyncClient":
            from millstream.client import AsyncClient

            return AsyncClient
        if name == "Pipeline":
            from millstream.local.declare import Pipeline

            return Pipeline
        if name == "serve":
            from millstream.local.serving import serve

            return serve
        if name == "write_reference":
            from workers.observations import write_reference

            return write_reference
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
