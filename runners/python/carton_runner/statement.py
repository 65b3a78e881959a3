"""What a loaded model states about itself: its methods ``signature`` and ``example`` (README.md, "Stating the signature")."""

import json

from carton_runner.errors import RunnerError
from carton_runner.requests import DTYPES

_HINT = 'return {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}], "outputs": […]}'

_REQUIRED = {"name", "dtype", "shape"}
_KNOWN = _REQUIRED | {"optional", "description"}


def of(signature, example):
    """Returns the fields of a ``described`` but for its example, as JSON, and the example as a dict of values by name. Both methods may
    be ``None``."""
    stated = {"inputs": [], "outputs": []}
    if signature is not None:
        stated = _checked(signature())
    values = None if example is None else example()
    if values is None:
        values = {}
    if not isinstance(values, dict) or any(not isinstance(name, str) for name in values):
        raise RunnerError("`example` of the model returned no dict of inputs by name", hint="return a dict, or None")
    fields = {side: [{key: spec[key] for key in ("name", "dtype", "shape")} for spec in stated[side]] for side in stated}
    for side in stated:
        fields["optional_" + side] = [spec["name"] for spec in stated[side] if spec.get("optional")]
    described = [spec for side in stated for spec in stated[side] if "description" in spec]
    fields["descriptions"] = {spec["name"]: spec["description"] for spec in described}
    return "".join("%s:%s," % (json.dumps(name), json.dumps(field)) for name, field in fields.items()), values


def _checked(signature):
    if not isinstance(signature, dict) or "inputs" not in signature or not set(signature) <= {"inputs", "outputs"}:
        raise RunnerError("`signature` of the model returned no dict of `inputs` and `outputs`", hint=_HINT)
    return {side: [_spec(side, spec) for spec in _list(side, signature.get(side, []))] for side in ("inputs", "outputs")}


def _list(side, specs):
    if not isinstance(specs, (list, tuple)):
        raise RunnerError("`%s` of the model's signature is no list" % side, hint=_HINT)
    return specs


def _spec(side, spec):
    if not isinstance(spec, dict) or not _REQUIRED <= set(spec) <= _KNOWN:
        raise RunnerError("`%s` of the model's signature holds what is no dict of `name`, `dtype` and `shape`" % side, hint=_HINT)
    name, dtype, shape = spec["name"], str(spec["dtype"]), spec["shape"]
    if not isinstance(name, str) or not name:
        raise RunnerError("`%s` of the model's signature has a name that is no text" % side, hint=_HINT)
    if dtype not in DTYPES:
        raise RunnerError("`%s` of the model's signature has no known dtype: %s" % (name, dtype))
    if isinstance(shape, (list, tuple)):
        shape = [_dimension(name, size) for size in shape]
    elif not isinstance(shape, str):
        raise RunnerError("the shape of `%s` in the model's signature is neither a list nor a text" % name, hint=_HINT)
    if not isinstance(spec.get("optional", False), bool) or not isinstance(spec.get("description", ""), str):
        raise RunnerError("`%s` of the model's signature: `optional` is a boolean, and `description` a text" % name, hint=_HINT)
    return {**spec, "name": name, "dtype": dtype, "shape": shape}


def _dimension(name, size):
    if isinstance(size, str):
        return size
    try:
        number = size.__index__()
    except AttributeError:
        number = -1
    if number < 0:
        raise RunnerError("the shape of `%s` in the model's signature has a size that is neither a text nor a number: %r" % (name, size))
    return number
