"""Finds the bridge of the running event loop, on which finished operations are awaited."""

import asyncio
import weakref
from typing import Any

from . import _carton

_bridges: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _carton.Bridge]" = weakref.WeakKeyDictionary()


def bridge() -> "tuple[asyncio.AbstractEventLoop, _carton.Bridge]":
    loop = asyncio.get_running_loop()
    found = _bridges.get(loop)
    if found is None:
        found = _carton.Bridge()
        loop.add_reader(found.fileno(), found.deliver)
        _bridges[loop] = found
    return loop, found


async def result(future: "asyncio.Future[Any]") -> Any:
    """Makes a coroutine of a future: tasks are made of coroutines alone."""
    return await future
