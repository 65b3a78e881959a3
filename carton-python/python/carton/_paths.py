"""The type of paths, and locations as text."""

from __future__ import annotations

import os
from typing import Any, Union

#: Where a carton may be. Every docstring of a function that takes such a place has these words, so that they are also there in editors.
PLACES = "a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`"

AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def location_text(location: Any) -> str:
    """The text of a path or URL, as the extension module takes it."""
    text: str = os.fsdecode(location)
    # A path object is a path, whatever it looks like.
    if not isinstance(location, str) and ("#" in text or ":" in text):
        return os.path.join(os.path.abspath(os.path.dirname(text)), os.path.basename(text))
    return text
