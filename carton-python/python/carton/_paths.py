"""The type of paths, and locations as text."""

from __future__ import annotations

import os
from typing import Any, Union

AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def location_text(location: Any) -> str:
    """The text of a path or URL, as the extension module takes it."""
    text: str = os.fsdecode(location)
    # A path object is a path, whatever it looks like.
    if not isinstance(location, str) and ("#" in text or ":" in text):
        return os.path.join(os.path.abspath(os.path.dirname(text)), os.path.basename(text))
    return text
