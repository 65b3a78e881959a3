"""Examines a model's entry point without running any of it: whether its module can be compiled, whether the function exists, and
which inputs it takes. Packing does this before any long step. The packages of the model are not installed then, so the module
cannot be imported."""

import ast
import importlib.machinery as machinery
import os
import warnings
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Set, Tuple, Union

from carton_runner.errors import RunnerError

#: Larger modules are not examined.
MAX_MODULE_BYTES = 16 << 20

#: Names whose use means that a module may define further names at run time.
_DYNAMIC = frozenset(("globals", "locals", "vars", "exec", "eval", "setattr", "__getattr__", "__dict__", "modules"))

#: Words with which a package can add modules from outside its folder.
_ADDS_MODULES = (b"__path__", b"modules", b"meta_path", b"path_hooks")
#: The kinds of module files in Python's order. Only the second kind is source text.
_LOADERS = (
    (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
    (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
    (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
)

_Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


class EntryPoint(NamedTuple):
    """The function with which a model begins."""

    #: The module, such as `net.serve`.
    package: str
    #: The name of the function in the module, such as `get_model`.
    function: str
    #: Whether the function is the model itself (``infer_fn``).
    is_model: bool
    #: The path of the module's file in the model.
    file: str
    #: The function's definition, if the text of the module determines it for certain.
    definition: Optional[_Function]

    def is_coroutine(self) -> bool:
        """Whether the function is known to be an ``async def``."""
        return isinstance(self.definition, ast.AsyncFunctionDef)


def only_module(names: List[str]) -> str:
    """Returns the default module of a model, by the files at the top of its folder: the only Python file, otherwise ``main``."""
    modules = [name[:-3] for name in names if name.endswith(".py") and name != "__init__.py"]
    return modules[0] if len(modules) == 1 else "main"


def no_module(package: str, names: List[str]) -> RunnerError:
    """Returns the error for a missing module."""
    found = ", ".join(sorted(name for name in names if name.endswith(".py"))) or "none"
    hint = "name the model's module with the option `entrypoint_package`"
    return RunnerError("the model has no module `%s` (there are these: %s)" % (package, found), hint=hint)


def no_function(package: str, name: str, option: str, what: str = "no function", file: str = "") -> RunnerError:
    """Returns the error for a module without that function."""
    hint = "name the function with the option `%s`" % option
    if option == "entrypoint_fn":
        hint += ", or a plain function that is the model with `infer_fn`"
    where = " (%s)" % file if file else ""
    return RunnerError("the module `%s`%s has %s `%s`" % (package, where, what, name), hint=hint)


def read(path: Path, options) -> EntryPoint:
    """Returns the entry point of the model at ``path``, a folder or a Python file, with these ``loading.Options``.

    Raises :class:`RunnerError` if its module is missing, cannot be compiled or has no such function."""
    names = os.listdir(path) if path.is_dir() else [path.name]
    package = options.package or only_module(names)
    function = options.function or options.entrypoint or "get_model"
    unknown = EntryPoint(package, function, options.function is not None, "", None)
    file, is_there = _file(path, package)
    if not is_there:
        raise no_module(package, names)
    if file is None:
        return unknown
    relative = os.path.relpath(file, path) if path.is_dir() else path.name
    tree = _parse(file, relative)
    if tree is None:
        return unknown._replace(file=relative)
    bound, definitions = _names(tree)
    first = function.split(".")[0]
    if bound is not None and first not in bound:
        option = "infer_fn" if unknown.is_model else "entrypoint_fn"
        raise no_function(package, function, option, file=relative)
    return unknown._replace(file=relative, definition=definitions.get(function) if bound is not None else None)


def _file(path: Path, package: str) -> Tuple[Optional[Path], bool]:
    """Returns the file of a module, if that is source text, and whether the module exists at all. Python's own finder searches the
    folders of the parent packages, so a module that is found can be imported."""
    parts = package.split(".")
    if not path.is_dir():
        return path, parts == [path.stem]
    if any(not part or os.sep in part or "\0" in part for part in parts):
        return None, False
    folders = [str(path)]
    initial: Optional[str] = os.path.join(path, "__init__.py")
    for part in parts:
        spec = next(filter(None, (machinery.FileFinder(folder, *_LOADERS).find_spec(part) for folder in folders)), None)
        if spec is None:
            return None, _is_for_others(part, folders) or _adds_modules(initial)
        folders = list(spec.submodule_search_locations or ())
        initial = spec.origin if isinstance(spec.loader, machinery.SourceFileLoader) else None
    return None if initial is None else Path(initial), True


def _is_for_others(module: str, folders: List[str]) -> bool:
    """Whether the module exists only compiled for another Python or another system."""
    names = [name for folder in folders for name in os.listdir(folder)]
    return any(name.startswith(module + ".") and name.endswith((".so", ".pyd")) for name in names)


def _adds_modules(initial: Optional[str]) -> bool:
    """Whether a package's ``__init__.py`` may add modules from outside its folder."""
    try:
        with open(initial or os.devnull, "rb") as file:
            text = file.read(MAX_MODULE_BYTES)
    except OSError:
        return False
    return any(word in text for word in _ADDS_MODULES)


def _parse(file: Path, relative: str) -> Optional[ast.Module]:
    try:
        with open(file, "rb") as opened:
            data = opened.read(MAX_MODULE_BYTES + 1)
        if len(data) > MAX_MODULE_BYTES:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data, relative)
            # Finds errors that the grammar does not, such as a `return` outside of a function. Nothing is run.
            compile(tree, relative, "exec", dont_inherit=True)
        return tree
    except OSError as error:
        raise RunnerError("cannot read `%s`" % relative, [str(error)], code="setup") from error
    except SyntaxError as error:
        place = "%s, line %d" % (relative, error.lineno) if error.lineno else relative
        causes = [(error.text or "").strip()] if error.text else []
        raise RunnerError("%s: %s: %s" % (place, type(error).__name__, error.msg), causes) from error
    except ValueError as error:
        raise RunnerError("%s: it is not Python: %s" % (relative, error)) from error
    except (RecursionError, MemoryError):
        # The code is nested too deep to be examined here.
        return None


def _names(tree: ast.Module) -> Tuple[Optional[Set[str]], Dict[str, _Function]]:
    """Returns the names at the top of a module, or ``None`` if not all can be known; and the functions that are bound exactly
    once, without decorators."""
    bound: List[str] = []
    definitions: Dict[str, _Function] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            bound += node.names
        if _is_dynamic(node):
            return None, {}
    to_visit: List[ast.AST] = list(tree.body)
    while to_visit:
        node = to_visit.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.append(node.name)
            if not isinstance(node, ast.ClassDef) and not node.decorator_list:
                definitions[node.name] = node
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound += [(alias.asname or alias.name).split(".")[0] for alias in node.names]
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                bound.append(node.id)
        elif isinstance(getattr(node, "name", None), str):
            # `except … as name`, and the captures of a pattern.
            bound.append(node.name)
        to_visit += ast.iter_child_nodes(node)
    once = {name: node for name, node in definitions.items() if bound.count(name) == 1}
    return set(bound), once


def _is_dynamic(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return any(alias.name == "*" for alias in node.names)
    if isinstance(node, ast.Name):
        return node.id in _DYNAMIC
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name in _DYNAMIC
    return isinstance(node, ast.Attribute) and node.attr in _DYNAMIC
