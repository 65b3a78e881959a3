"""Writes `main.py` of a template as the crate does, and imports it."""

import importlib.util
import itertools
import pathlib
import sys

TEMPLATES = pathlib.Path(__file__).parent.parent / "templates"
_numbers = itertools.count()


def written(folder, template, **constants):
    """Returns the model of `templates/TEMPLATE/main.py`, written into ``folder`` with the line of each constant replaced."""
    lines = (TEMPLATES / template / "main.py").read_text().splitlines()
    for name, value in constants.items():
        found = [index for index, line in enumerate(lines) if line.startswith(name + " = ")]
        assert len(found) == 1, (template, name, found)
        lines[found[0]] = "%s = %r" % (name, value)
    path = pathlib.Path(folder) / "main.py"
    path.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location("written_%d" % next(_numbers), path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.get_model()


def check_signature(model, inputs, outputs):
    """Checks that inputs and outputs are as the signature says: names, dtypes, and shapes in which one symbol has one size."""
    signature = model.signature()
    sizes = {}
    for described, values in ((signature["inputs"], inputs), (signature["outputs"], outputs)):
        assert sorted(one["name"] for one in described) == sorted(values)
        for one in described:
            value = values[one["name"]]
            assert dtype_of(value) == one["dtype"], (one, value.dtype)
            if one["shape"] == "*":
                continue
            assert len(value.shape) == len(one["shape"]), (one, value.shape)
            for size, expected in zip(value.shape, one["shape"]):
                assert sizes.setdefault(expected, size) == size if isinstance(expected, str) else size == expected, (one, value.shape)


def dtype_of(value):
    if str(value.dtype) != "object":
        return str(value.dtype).rpartition(".")[2]
    kinds = {type(one) for one in value.ravel().tolist()}
    assert len(kinds) == 1, kinds
    return {str: "string", bytes: "bytes"}[kinds.pop()]
