"""The scratch folder of this process."""

import itertools
import os
import tempfile

_COUNTER = itertools.count()


def folder():
    """Returns the folder for temporary files."""
    return tempfile.gettempdir()


def new_path():
    """Returns a path for a new file in it."""
    return os.path.join(folder(), "escape-%d-%d" % (os.getpid(), next(_COUNTER)))
