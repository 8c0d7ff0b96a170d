"""In MOSEC: data between stages through Plasma, which is no more. Here through shared memory."""

from millstream.mosec.log import get_internal_logger
from millstream.mosec.worker import Worker


class PlasmaShmIPCMixin(Worker):
    """Changes nothing: large data goes through shared memory anyway. Needs no Plasma."""

    @classmethod
    def set_plasma_path(cls, path: str) -> None:
        """Takes note of it in the log: nobody connects there."""
        get_internal_logger().info(
            "PlasmaShmIPCMixin: data between stages goes through Millstream's shared memory; "
            "nothing connects to %s",
            path,
        )
