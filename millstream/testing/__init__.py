"""For the tests of plug-ins: `pipeline` runs their chain in this process, without sockets, and
`deployment` as real processes on a free port.

Light, as `millstream` itself: neither aiohttp nor torch, but where a plug-in imports them.
"""

from millstream.chain.findings import ChainError
from millstream.local.deployment import DeploymentError
from millstream.testing.answer import Answer, AnswerError
from millstream.testing.deployment import Deployment, deployment
from millstream.testing.pipeline import Pipeline, pipeline

__all__ = [
    "Answer", "AnswerError", "ChainError", "Deployment", "DeploymentError", "Pipeline",
    "deployment", "pipeline",
]  # fmt: skip
