"""MOSEC's mixins: for bodies in msgpack, and for large data between stages, which Millstream puts
into shared memory anyway.
"""

from millstream.mosec.mixin.msgpack_worker import MsgpackMixin
from millstream.mosec.mixin.numbin_worker import NumBinIPCMixin
from millstream.mosec.mixin.plasma_worker import PlasmaShmIPCMixin
from millstream.mosec.mixin.redis_worker import RedisShmIPCMixin
from millstream.mosec.mixin.typed_worker import TypedMsgPackMixin

__all__ = [
    "MsgpackMixin", "NumBinIPCMixin", "PlasmaShmIPCMixin", "RedisShmIPCMixin", "TypedMsgPackMixin",
]  # fmt: skip
