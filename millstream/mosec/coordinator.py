"""Names of MOSEC's coordinator that others import: its work is done by Millstream's own runtime."""

from enum import IntFlag


class State(IntFlag):
    """Whether a stage is the first of its route, or the last."""

    INGRESS = 0b1
    EGRESS = 0b10
