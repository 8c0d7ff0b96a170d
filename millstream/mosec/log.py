"""Loggers for scripts: the standard library's, which write to the log of the deployment."""

import logging
import os

from millstream.mosec.args import get_log_level

USER_LOG_NAME = "mosec.user"
INTERNAL_LOG_NAME = "mosec"
_LEVEL = "MOSEC_LOGGER_LEVEL"
"""Tells workers which level the options of their parent asked for."""


def get_logger() -> logging.Logger:
    """The logger of a script."""
    return _logger(USER_LOG_NAME)


def get_internal_logger() -> logging.Logger:
    """That of this package."""
    return _logger(INTERNAL_LOG_NAME)


def set_logger(level: int = logging.INFO) -> None:
    """The level for loggers from now on, in processes that are started as well."""
    os.environ[_LEVEL] = str(level)


def _logger(name: str) -> logging.Logger:
    level = os.environ.get(_LEVEL, "")
    logger = logging.getLogger(name)
    logger.setLevel(int(level) if level.isdigit() else get_log_level())
    if not logging.root.handlers and not logger.handlers:  # a worker's root has one
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
    return logger
