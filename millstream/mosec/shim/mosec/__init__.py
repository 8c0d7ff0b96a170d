"""`mosec`, where this folder is on the path: Millstream's compatibility package."""

from millstream.mosec import *  # noqa: F403
