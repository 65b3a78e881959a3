"""Imports the modules in a model's folder, each once.

A module has two names: its own, by which the rest of the world knows it (`import net`, a pickle of `net.Scaler`), and one in the package
:data:`PACKAGE`, which relative imports need (`from . import net`). Both are one module. It is imported under its own name, as
``python -c "import net"`` in the model's folder does, and says that it is in the package.

A module whose own name is taken, by a module of the standard library or of the runner that is imported already, has only the other name.
"""

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder

#: The package as which models are imported, as in the original Carton.
PACKAGE = "_carton_model_module"
_PREFIX = PACKAGE + "."


def install(folder):
    """Makes the modules in a folder importable, and forgets those of an earlier call."""
    importlib.invalidate_caches()
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    for name, module in list(sys.modules.items()):
        if name == PACKAGE or name.startswith(_PREFIX) or _is_of_model(module):
            del sys.modules[name]
    # In front of the finder of files, and behind those for built-in modules, which have precedence in Python too.
    position = next((at for at, finder in enumerate(sys.meta_path) if finder is PathFinder), len(sys.meta_path))
    sys.meta_path.insert(position, _Finder(folder))


class _Spec(ModuleSpec):
    """The spec of a module in the model's folder: that which Python found, but for the package that relative imports start from."""

    def __init__(self, found):
        vars(self).update(vars(found))

    @property
    def parent(self):
        return (_PREFIX + super().parent).rstrip(".")


class _Finder(MetaPathFinder):
    def __init__(self, folder):
        self._folder = folder

    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith(_PREFIX):
            return self._under_own_name(fullname, path)
        own = fullname[len(_PREFIX) :]
        if not self._has_own_name(own, path):
            # Python's finder imports it under the name in the package alone.
            return None
        return ModuleSpec(fullname, _Alias(own))

    def _under_own_name(self, name, path):
        parent = name.rpartition(".")[0]
        if parent:
            found = PathFinder.find_spec(name, path) if _is_of_model(sys.modules.get(parent)) else None
        else:
            found = PathFinder.find_spec(name, [self._folder])
            # A folder that the model has put in front of its own hides what is there.
            if found is not None and not _are_same(found, PathFinder.find_spec(name)):
                found = None
        return None if found is None else _Spec(found)

    def _has_own_name(self, own, path):
        parent = own.rpartition(".")[0]
        if own in sys.modules:
            return _is_of_model(sys.modules[own])
        if parent:
            return sys.modules.get(parent) is sys.modules.get(_PREFIX + parent) and self._under_own_name(own, path) is not None
        is_built_in = any(finder.find_spec(own) is not None for finder in (BuiltinImporter, FrozenImporter))
        return not is_built_in and self._under_own_name(own, None) is not None


class _Alias(Loader):
    """Loads a module under its own name, and gives it the other one."""

    def __init__(self, own):
        self._own = own
        self._spec = None

    def create_module(self, spec):
        module = importlib.import_module(self._own)
        self._spec = module.__spec__
        return module

    def exec_module(self, module):
        # The import system has replaced it by the spec of the other name.
        module.__spec__ = self._spec


def _is_of_model(module):
    return isinstance(getattr(module, "__spec__", None), _Spec)


def _are_same(one, other):
    if other is None or one.origin != other.origin:
        return False
    # Folders without `__init__.py` have no origin.
    folders = (one.submodule_search_locations, other.submodule_search_locations)
    return one.origin is not None or set(folders[0] or ()) <= set(folders[1] or ())
