"""The packages of this environment: which one a module is from, what it requires, and its version."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path
from typing import Any, Iterable, Mapping


def is_own(module: str) -> bool:
    """Whether a module is neither of Python nor of an installed package: `__main__`, a notebook, or a file of the user's."""
    top = module.partition(".")[0]
    if top == "__main__":
        return True
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return False
    return top not in _installed() or any(_is_editable(name) for name in _installed()[top])


def _installed() -> Mapping[str, list[str]]:
    """The names of the installed distributions that have a top-level module."""
    # The list takes some 50 ms to make, and an object refers to some hundred modules.
    paths = tuple(sys.path)
    if _installed_cache.get("paths") != paths:
        _installed_cache["paths"] = paths
        _installed_cache["names"] = importlib.metadata.packages_distributions()
    names: Mapping[str, list[str]] = _installed_cache["names"]
    return names


_installed_cache: dict[str, Any] = {}


def _is_editable(distribution: str) -> bool:
    text = importlib.metadata.distribution(distribution).read_text("direct_url.json") or ""
    return re.search(r'"editable"\s*:\s*true', text) is not None


def distributions_of(modules: Iterable[str]) -> set[str]:
    """The distributions that modules are from."""
    found: set[str] = set()
    for module in modules:
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names or top in sys.builtin_module_names or top == "__main__":
            continue
        # Several distributions may share a top-level module (a namespace): the one whose file it is.
        names = sorted(set(_installed().get(top, [])))
        if len(names) > 1:
            names = [name for name in names if _has_module(name, module)] or names
        found.update(_normalized(name) for name in names)
    return found


def _has_module(distribution: str, module: str) -> bool:
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if loaded is None:
        return False
    files = importlib.metadata.files(distribution) or []
    return any(Path(str(file.locate())) == Path(loaded) for file in files)


def with_requirements(distributions: Iterable[str]) -> set[str]:
    """The distributions and those that they require, as far as they are installed. Requirements of extras count where installed."""
    found: set[str] = set()
    to_visit = list(distributions)
    while to_visit:
        name = to_visit.pop()
        if name in found:
            continue
        try:
            required = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found.add(name)
        matches = (re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", one) for one in required)
        to_visit += [_normalized(match[0]) for match in matches if match]
    return found


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pin(distribution: str) -> str:
    """The requirement of exactly the installed version. Builds (`2.1+cpu`) are in no index under their whole version."""
    version = importlib.metadata.version(distribution).partition("+")[0]
    return f"{distribution}=={version}"
