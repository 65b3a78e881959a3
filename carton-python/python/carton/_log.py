"""Hands the log records of the library to Python's `logging`, below the logger `carton`."""

import logging

from . import _carton


def start() -> None:
    """Collects records from the level that the logger `carton` has now, and from INFO on if it has none."""
    level = logging.getLogger("carton").getEffectiveLevel()
    _carton.start_log(min(level, logging.INFO))


def deliver() -> None:
    for level, name, text in _carton.take_log():
        logger = logging.getLogger(name.replace("carton_core", "carton", 1))
        if logger.isEnabledFor(level):
            logger.log(level, "%s", text)
