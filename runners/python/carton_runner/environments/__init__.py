"""Environments of models: what a model needs from the package index, and where it is on this machine.

The runner calls :func:`prepare` before it imports a model, and ``packing.pack`` to pack one. Both raise
``carton_runner.errors.RunnerError``. ``report`` has ``info(text)``, ``warn(text)`` and ``progress(what, done, total)``.
"""

#: Environment variables (patterns of ``fnmatch``) that installing packages needs and that the model does not see.
VARIABLES = ("UV_*", "PIP_*")


def prepare(model_folder, report):
    """Makes the environment of the model in ``model_folder`` unless it is there. Returns the folder of its packages, or
    ``None`` for a model that has no lock."""
    return None
