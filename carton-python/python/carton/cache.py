"""The cache of this machine: verified files of cartons, which all programs share."""

from __future__ import annotations

from . import _carton
from ._results import CachedCarton, CacheListing, Pruned

__all__ = ["CacheListing", "CachedCarton", "Pruned", "list", "prune", "remove"]


def list() -> CacheListing:  # noqa: A001
    """What the cache holds: its folder, its size in bytes, and the cartons, the last used first.

    Raises:
        MachineError: The cache cannot be read.

        >>> carton.cache.list().bytes >= 0
        True
    """
    return _carton.cache_list()


def prune(
    *, older_than: float | None = None, max_size: int | None = None, dry_run: bool = False
) -> Pruned:
    """Deletes the cartons that no process uses.

    Args:
        older_than: Only those that were not used for this time, in seconds.
        max_size: Only until the cache is as small as this, in bytes, the least recently used first.
        dry_run: Deletes nothing, and returns what would be deleted.

    Raises:
        InvalidInputError: A time or size is negative.
        MachineError: A file cannot be deleted.

        >>> carton.cache.prune(older_than=30 * 24 * 3600, dry_run=True).cartons
        []
    """
    return _carton.cache_prune(older_than=older_than, max_size=max_size, dry_run=dry_run)


def remove(*wanted: str) -> Pruned:
    """Deletes cartons, each named by the beginning of its hash, its name, its URL or its path.

    Raises:
        InvalidInputError: No carton in the cache has the name, or several have.

        >>> carton.cache.remove().freed
        0
    """
    return _carton.cache_remove([*wanted])
