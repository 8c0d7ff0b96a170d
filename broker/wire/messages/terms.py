"""What all messages agree on: the version, the epoch, who beats how often, and names."""

from typing import Annotated, TypeAlias

from msgspec import Meta

PROTOCOL_VERSION = 1
NO_EPOCH = 0
"""The epoch in a message from a peer that no broker has welcomed yet."""

BEAT_S = 0.5
"""How often everyone says that they are alive (an idle worker says so every `IDLE_BEAT_S`)."""
IDLE_BEAT_S = 1.0
SILENCE_S = 3.0
"""After this long without a word a peer is lost."""

RoutingId: TypeAlias = Annotated[bytes, Meta(max_length=255)]
"""What ZeroMQ knows a peer by, and no longer than it can be there."""

Name: TypeAlias = Annotated[str, Meta(max_length=255)]
"""Of a stage, a pipeline or a version. Those that workers bring are remembered."""

Declaration: TypeAlias = Annotated[bytes, Meta(max_length=1 << 16)]
"""What a plug-in declares of its inputs and outputs: remembered likewise."""
