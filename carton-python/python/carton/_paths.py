"""The type of paths."""

from __future__ import annotations

import os
from typing import Union

AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
