"""The cache of this machine: verified files of cartons, which all programs share."""

from __future__ import annotations

from typing import Any

from . import _carton

__all__ = ["list", "prune", "remove"]


def list() -> dict[str, Any]:  # noqa: A001
    """What the cache holds: `path`, `bytes`, and `cartons`, the last used first."""
    return _carton.cache_list()


def prune(
    *, older_than: float | None = None, max_size: int | None = None, dry_run: bool = False
) -> dict[str, Any]:
    """Deletes the cartons that no process uses.

    Args:
        older_than: Only those that were not used for this time, in seconds.
        max_size: Only until the cache is as small as this, in bytes, the least recently used first.
        dry_run: Deletes nothing, and returns what would be deleted.

    Returns:
        `cartons` that were deleted, the bytes that were `freed`, and those that remain.
    """
    return _carton.cache_prune(older_than=older_than, max_size=max_size, dry_run=dry_run)


def remove(*wanted: str) -> dict[str, Any]:
    """Deletes cartons, each named by the beginning of its hash, its name, its URL or its path."""
    return _carton.cache_remove([*wanted])
