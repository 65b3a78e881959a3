"""The name and version of this runner. The descriptor that ``carton runner install python`` writes has the same."""

import sys

NAME = "python"


def framework_version():
    """Returns the interpreter's version in the form of semantic versioning: ``3.13.0``, ``3.14.0-rc.2``."""
    major, minor, micro, level, serial = sys.version_info
    release = "%d.%d.%d" % (major, minor, micro)
    if level == "final":
        return release
    label = {"alpha": "alpha", "beta": "beta", "candidate": "rc"}[level]
    return "%s-%s.%d" % (release, label, serial)
