"""Recognizes objects of libraries without importing them."""

from __future__ import annotations

import sys
from typing import Any


def is_of(model: Any, module: str, name: str) -> bool:
    """Whether the value is an instance of a class of a library. The library is not imported for it."""
    library = sys.modules.get(module)
    kind = getattr(library, name, None)
    return kind is not None and isinstance(model, kind)
