"""The default start method of ``multiprocessing`` in a sandbox without sockets.

Since Python 3.14 the default is ``forkserver``, whose server listens on a socket. Where the system has no namespaces, a sandbox allows no
sockets, so ``spawn`` becomes the default. Models can still choose another method.
"""

import importlib.abc
import importlib.machinery
import sys

_MODULE = "multiprocessing"


def default_to_spawn():
    """Makes ``spawn`` the default when ``multiprocessing`` is imported. The import itself would slow the runner's start."""
    if _MODULE in sys.modules:
        _set_default(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Finder())


def _set_default(module):
    # Not `set_start_method`: after it, the first choice of the model would be an error.
    module.context._default_context._default_context = module.get_context("spawn")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module as the interpreter does, and changes it after its import."""

    def find_spec(self, name, path=None, target=None):
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # Modules keep their loader, for example to read data beside them.
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _set_default(module)
