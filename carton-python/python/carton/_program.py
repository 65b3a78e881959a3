"""Finds the program `carton` that was installed with this module. Its built-in runners run models."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from . import _carton


def find() -> Path | None:
    """The program, or None where the module was not installed from a wheel.

    `CARTON_PROGRAM` names another one. Otherwise it is in the folder for scripts of the environment that holds this module.
    """
    named = os.environ.get("CARTON_PROGRAM")
    if named:
        return Path(named)
    site = Path(__file__).resolve().parent.parent
    # From `lib/pythonX.Y/site-packages`, or `lib/pythonX.Y/dist-packages`, up to the environment.
    folders = [site.parents[2] / "bin"] if len(site.parents) > 2 else []
    folders.append(Path(sysconfig.get_path("scripts")))
    user = sysconfig.get_preferred_scheme("user")
    folders.append(Path(sysconfig.get_path("scripts", user)))
    return next((path for folder in folders if (path := folder / "carton").is_file()), None)


def use() -> None:
    path = find()
    if path is not None:
        _carton.use_program(path)
