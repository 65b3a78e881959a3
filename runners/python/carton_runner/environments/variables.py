"""The environment variables for uv and pip: those of this process, without variables that would change which packages are
installed, where, or whether they are checked."""

import os
import re
from typing import Dict

#: Settings of pip, and the equivalent ones of uv.
_SAME_SETTINGS = (
    ("PIP_INDEX_URL", ("UV_DEFAULT_INDEX", "UV_INDEX_URL")),
    ("PIP_EXTRA_INDEX_URL", ("UV_INDEX", "UV_EXTRA_INDEX_URL")),
    ("PIP_FIND_LINKS", ("UV_FIND_LINKS",)),
)


def of(program: str) -> Dict[str, str]:
    """Returns the variables for ``uv`` or ``pip``."""
    return of_pip() if program == "pip" else of_uv()


def of_uv() -> Dict[str, str]:
    """Returns the variables for uv."""
    kept = dict(os.environ)
    for name in (
        "UV_PYTHON",
        "UV_SYSTEM_PYTHON",
        "UV_BREAK_SYSTEM_PACKAGES",
        "UV_NO_VERIFY_HASHES",
        "UV_REQUIRE_HASHES",
        "UV_PROJECT",
        "UV_PROJECT_ENVIRONMENT",
        "UV_WORKING_DIR",
        "UV_WORKING_DIRECTORY",
        "UV_NO_SYNC",
        "UV_CONSTRAINT",
        "UV_OVERRIDE",
        "UV_EXCLUDE",
        "UV_VENV_CLEAR",
        "UV_VENV_SEED",
        "UV_TORCH_BACKEND",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
    ):
        kept.pop(name, None)
    kept.update(UV_PYTHON_DOWNLOADS="never", UV_NO_PROGRESS="1", NO_COLOR="1")
    return kept


def of_pip() -> Dict[str, str]:
    """Returns the variables for pip, with the settings of uv translated to pip's."""
    variables = of_uv()
    for name in ("PIP_REQUIRE_VIRTUALENV", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_ROOT", "PIP_CONSTRAINT"):
        variables.pop(name, None)
    for name, of_the_same in _SAME_SETTINGS:
        given = [variables[other] for other in of_the_same if variables.get(other)]
        if given and name not in variables:
            # uv allows `name=URL`, and commas between folders.
            words = " ".join(given).replace(",", " ").split() if name == "PIP_FIND_LINKS" else " ".join(given).split()
            variables[name] = " ".join(re.sub(r"^[A-Za-z0-9_-]+=(?=[a-z]+:)", "", word) for word in words)
    return variables
