"""All ways out, by their names.

Each is a function that returns what it achieved, and raises an ``OSError`` where the system refuses. Its arguments are strings and numbers,
so that they can be written as JSON.
"""

import inspect

from ways import daemons, files, folders, kernel, memory, processes, resources, services, signals, sockets, terminals

_MODULES = [daemons, files, folders, kernel, memory, processes, resources, services, signals, sockets, terminals]

#: Functions by name.
ALL = {
    name: function
    for module in _MODULES
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__ and not name.startswith("_")
}
