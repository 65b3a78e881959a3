"""Calls the clients of Triton, which each exist twice: with and without `asyncio`."""

import asyncio
import inspect


class Blocking:
    """A client whose methods are awaited where they are coroutines."""

    def __init__(self, make):
        self.loop = asyncio.new_event_loop()

        async def make_in_loop():
            # The asynchronous clients look for the loop that runs.
            return make()

        self.client = self.loop.run_until_complete(make_in_loop())

    def __getattr__(self, name):
        method = getattr(self.client, name)

        def call(*arguments, **options):
            result = method(*arguments, **options)
            return self.loop.run_until_complete(result) if inspect.isawaitable(result) else result

        return call

    def finish(self):
        self.close()
        self.loop.close()


def same(found, expected):
    """Whether two arrays have the same dtype, shape and elements. Clients return strings from JSON as text, others as bytes."""
    if expected.dtype == object:
        texts = [element.decode() if isinstance(element, bytes) else element for element in found.ravel()]
        return found.shape == expected.shape and texts == expected.ravel().tolist()
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()
