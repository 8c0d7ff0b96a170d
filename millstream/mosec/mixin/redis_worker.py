"""In MOSEC: data between stages through Redis. Here it goes through shared memory."""

from millstream.mosec.log import get_internal_logger
from millstream.mosec.worker import Worker


class RedisShmIPCMixin(Worker):
    """Changes nothing: large data goes through shared memory anyway. Needs no Redis."""

    @classmethod
    def set_redis_url(cls, url: str) -> None:
        """Takes note of it in the log: nobody connects there."""
        get_internal_logger().info(
            "RedisShmIPCMixin: data between stages goes through Millstream's shared memory; "
            "nothing connects to %s",
            url,
        )
