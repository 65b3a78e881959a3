"""Checks the fields of `load`, `prepare` and `pack`, and writes those of `prepared` and `packed` (spec/runner-protocol.md, section 5)."""

import json
import os

from carton_runner.decoding import SIZES
from carton_runner.errors import RunnerError
from carton_runner.frames import malformed

#: The dtypes that a declared tensor may have.
DTYPES = frozenset((*SIZES, "string", "bytes"))


def load_fields(fields, message):
    """Returns the checked fields of a `load` or a `prepare`, which have the same."""
    files = _field(fields, "files", dict, message)
    if type(files.get("ranges")) is dict and len(files) == 1:
        raise RunnerError("this runner reads models from folders: `files` in its descriptor has to be `directory`")
    directory = files.get("directory")
    if type(directory) is not dict or len(files) != 1:
        raise malformed(message, "`files` is neither `directory` nor `ranges`")
    device = fields.get("device")
    if device is not None and type(device) is not str:
        raise malformed(message, "`device` is no text")
    return {
        "path": _field(directory, "path", str, message),
        "options": _optional(fields, "options", dict, message),
        "device": device,
        "inputs": _specs(fields, "inputs", message),
        "outputs": _specs(fields, "outputs", message),
    }


def pack_fields(fields):
    """Returns the checked fields of a `pack`."""
    return {
        "path": _field(fields, "path", str, "pack"),
        "scratch": _field(fields, "scratch", str, "pack"),
        "options": _optional(fields, "options", dict, "pack"),
        "pack_options": _optional(fields, "pack_options", dict, "pack"),
        "leave_out": _texts(fields, "leave_out", "pack"),
        # Absent or null if the user declares no inputs, which differs from an empty list.
        "inputs": _specs(fields, "inputs", "pack") if fields.get("inputs") is not None else None,
        "runner_compat_version": _field(fields, "runner_compat_version", int, "pack")
        if fields.get("runner_compat_version") is not None
        else None,
    }


def prepared_json(prepared):
    """Returns the fields of a `prepared` as JSON."""
    return json.dumps(prepared)


def packed_json(packed):
    """Returns the fields of a `packed` as JSON."""
    fields = {key: value for key, value in packed.items() if value is not None}
    fields["path"] = os.fspath(fields["path"])
    return json.dumps(fields)


def _specs(fields, key, message):
    specs = _optional(fields, key, list, message)
    for spec in specs:
        if type(spec) is not dict:
            raise malformed(message, "`%s` holds what is no object" % key)
        _field(spec, "name", str, message)
        if type(spec.get("dtype")) is not str or spec["dtype"] not in DTYPES:
            raise malformed(message, "`%s` has no known dtype" % spec["name"])
        if spec.get("internal_name") is not None:
            _field(spec, "internal_name", str, message)
    return specs


def _field(fields, key, kind, message):
    value = fields.get(key)
    if type(value) is not kind:
        raise malformed(message, "`%s` is missing or of the wrong type" % key)
    return value


def _texts(fields, name, message):
    texts = fields.get(name, [])
    if type(texts) is not list or not all(type(text) is str for text in texts):
        raise malformed(message, f"`{name}` is no list of texts")
    return texts


def _optional(fields, key, kind, message):
    return _field(fields, key, kind, message) if key in fields else kind()
