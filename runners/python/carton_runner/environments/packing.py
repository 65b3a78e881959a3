"""What goes into the carton of a Python model."""


def pack(path, scratch, options, pack_options, report):
    """Returns the fields of ``packed`` (spec/runner-protocol.md section 5) for the model at ``path``, which lies in
    ``scratch`` if anything has to be added to it."""
    return {"path": str(path)}
