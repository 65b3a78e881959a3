"""Pickles of live objects, and the modules that they refer to."""

from __future__ import annotations

import dis
import io
import pickle
import sys
import types
from typing import Any

from .._errors import InvalidInputError, UnsupportedError
from .packages import is_own


class _References:
    """Collects the modules that a pickle refers to, from the objects that the pickler sees."""

    def __init__(self) -> None:
        self.modules: set[str] = set()

    def see(self, value: Any) -> None:
        if isinstance(value, types.CodeType):
            # Imports in the body of a function.
            operations = dis.get_instructions(value)
            self.modules.update(str(one.argval) for one in operations if one.opname == "IMPORT_NAME" and one.argval)
        elif isinstance(value, types.ModuleType):
            self.modules.add(value.__name__)
        elif isinstance(value, type):
            self.modules.update(str(base.__module__) for base in value.__mro__)
        else:
            self.modules.update(str(base.__module__) for base in type(value).__mro__)
            if isinstance(module := getattr(value, "__module__", None), str):
                self.modules.add(module)


def _pickler(base: type[Any], references: _References, file: io.BytesIO) -> Any:
    class Pickler(base):  # type: ignore[misc]
        def persistent_id(self, value: Any) -> None:
            references.see(value)

    return Pickler(file, protocol=5)


def pickled(model: Any) -> tuple[bytes, set[str]]:
    """The pickle of an object, and the modules that unpickling and using it imports.

    Functions and classes of the user's own files, and of a notebook, are pickled with their code.
    """
    references, file = _References(), io.BytesIO()
    try:
        _pickler(pickle.Pickler, references, file).dump(model)
        own = {module for module in references.modules if is_own(module)}
        if not own:
            return file.getvalue(), references.modules
    except (pickle.PicklingError, AttributeError, TypeError):
        own = {module for module in references.modules if is_own(module)}
    try:
        import cloudpickle
    except ImportError:
        missing = UnsupportedError("packing code that is not in an installed package needs the package cloudpickle")
        missing.hint = "pip install cloudpickle"
        raise missing from None
    registered: list[types.ModuleType] = []
    try:
        while True:
            for name in own:
                if name != "__main__" and name in sys.modules:
                    cloudpickle.register_pickle_by_value(sys.modules[name])
                    registered.append(sys.modules[name])
            known = {module.__name__ for module in registered} | {"__main__"}
            references, file = _References(), io.BytesIO()
            try:
                _pickler(cloudpickle.Pickler, references, file).dump(model)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise InvalidInputError(f"the model cannot be pickled: {error}") from error
            own = {module for module in references.modules if is_own(module)} - known
            if not own:
                break
            if unknown := sorted(name for name in own if name not in sys.modules):
                wrong = InvalidInputError(f"the model imports `{unknown[0]}` in a function, which is in no installed package")
                wrong.hint = "import it at the top of the file, so that it is packed with the model"
                raise wrong
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)
    return file.getvalue(), (references.modules | {"cloudpickle"}) - known
