"""For the tests of plug-ins: `pipeline` runs their chain in this process, without sockets.

Light, as `millstream` itself: neither aiohttp nor torch, but where a plug-in imports them.
"""

from millstream.chain.mistakes import ChainError
from millstream.testing.answer import Answer, AnswerError
from millstream.testing.pipeline import Pipeline, pipeline

__all__ = ["Answer", "AnswerError", "ChainError", "Pipeline", "pipeline"]
