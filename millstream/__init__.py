"""What plug-in scripts import: `Worker`, `Reject`, `RequestInfo`. Light: no sockets, no torch."""

from workers.api import Reject, RequestInfo, Worker

__version__ = "0.1.0"

__all__ = ["Reject", "RequestInfo", "Worker", "__version__"]
