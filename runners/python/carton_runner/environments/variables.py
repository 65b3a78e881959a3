"""The environment variables for uv, pip and Python: those of this process, without variables that would change which packages are
installed, where, or whether they are checked."""

import fnmatch
import os
import re
from typing import Dict

from carton_runner import environments
from carton_runner.environments import store

#: The folder for uv's cache in the runners' data folder.
_UV_CACHE = "python/uv-cache"

#: Settings of pip, and the equivalent ones of uv.
_SAME_SETTINGS = (
    ("PIP_INDEX_URL", ("UV_DEFAULT_INDEX", "UV_INDEX_URL")),
    ("PIP_EXTRA_INDEX_URL", ("UV_INDEX", "UV_EXTRA_INDEX_URL")),
    ("PIP_FIND_LINKS", ("UV_FIND_LINKS",)),
)


def of(program: str) -> Dict[str, str]:
    """Returns the variables for ``uv``, ``pip`` or ``python``."""
    return {"uv": of_uv, "pip": of_pip, "python": of_python}[program]()


def of_python() -> Dict[str, str]:
    """Returns the variables for an interpreter that installs nothing: those of this process without credentials."""
    names = environments.VARIABLES
    return {
        name: value for name, value in os.environ.items() if not any(fnmatch.fnmatchcase(name, one) for one in names)
    }


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
        "UV_COMPILE_BYTECODE",
        "UV_TORCH_BACKEND",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
    ):
        kept.pop(name, None)
    if os.environ.get("CARTON_ALLOW_BUILD") != "1":
        # With these, uv builds packages although it is told to build none.
        for name in ("UV_NO_BINARY", "UV_NO_BINARY_PACKAGE"):
            kept.pop(name, None)
    if not kept.get("UV_CACHE_DIR"):
        # The home folder may be a scratch folder that is deleted with this process. Beside the environments, uv can link files from
        # its cache instead of copying them.
        kept["UV_CACHE_DIR"] = str(store.data_folder() / _UV_CACHE)
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
