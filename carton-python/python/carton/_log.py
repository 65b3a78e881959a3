"""Hands the log records of the library to Python's `logging`, below the logger `carton`."""

import logging

from . import _carton

# The crates of the library, whose modules are loggers below `carton`.
_LOGGERS = {"carton_core": "carton", "carton_format": "carton", "carton_network": "carton.network"}


def start() -> None:
    """Collects records from the level that the logger `carton` has now, and from INFO on if it has none."""
    level = logging.getLogger("carton").getEffectiveLevel()
    _carton.start_log(min(level, logging.INFO))


def deliver() -> None:
    for level, name, text in _carton.take_log():
        crate, _, module = name.partition(".")
        logger = logging.getLogger(".".join(filter(None, (_LOGGERS.get(crate, crate), module))))
        if logger.isEnabledFor(level):
            logger.log(level, "%s", text)
