"""Packs a model: what can be known of its entry point is checked, then ``environments.gathering`` makes its folder."""

import ast
import os
from pathlib import Path
from typing import Any, Dict, List, Optional

from carton_runner import entry_point, loading
from carton_runner.environments import gathering


def pack(path: Path, scratch: Path, options, pack_options: Dict[str, Any], inputs, report) -> Dict[str, Any]:
    """Returns the fields of ``packed`` (spec/runner-protocol.md section 5) for the model at ``path``, a folder or a
    Python file, with the declared ``inputs``, ``None`` if there are none.

    The folder that is packed is made in ``scratch``; the user's is never changed.
    """
    path = Path(os.path.abspath(path))
    options = loading.Options(options, report.warn)
    gathering.check_kind(path)
    # What is wrong with the model itself is told before packages are looked for.
    entry = entry_point.read(path, options)
    packed = gathering.gather(path, scratch, pack_options, report, _original_options(entry, options))
    return {**packed, "mismatches": mismatches(entry, inputs)}


def _original_options(entry, options) -> Optional[Dict[str, str]]:
    """The options with which the original Carton finds the entry point; ``None`` if it cannot call it: it knows neither plain
    functions, nor arguments, nor coroutines."""
    if entry.is_model or options.for_model or entry.is_coroutine() or not entry.function.isidentifier():
        return None
    return {"entrypoint_package": entry.package, "entrypoint_fn": entry.function}


def mismatches(entry: entry_point.EntryPoint, inputs: Optional[List[Dict[str, Any]]]) -> List[str]:
    """In which ways the declared inputs contradict the parameters of a plain function, a sentence each; ``None`` where none
    are declared."""
    if inputs is None or not entry.is_model or entry.definition is None:
        return []
    arguments = entry.definition.args
    where = "`%s` (%s, line %d)" % (entry.function, entry.file, entry.definition.lineno)
    by_position = {parameter.arg for parameter in arguments.posonlyargs}
    by_name = {parameter.arg for parameter in (*arguments.args, *arguments.kwonlyargs)}
    given = {spec.get("internal_name") or spec["name"] for spec in inputs}
    found = []
    for spec in inputs:
        name = spec.get("internal_name") or spec["name"]
        if name in by_position:
            found.append("input `%s`: %s takes `%s` by position only" % (spec["name"], where, name))
        elif name not in by_name and arguments.kwarg is None:
            has = ", ".join("`%s`" % parameter.arg for parameter in (*arguments.args, *arguments.kwonlyargs)) or "none"
            found.append("input `%s`: %s has no parameter `%s`; it has %s" % (spec["name"], where, name, has))
    for name in _required(arguments):
        if name not in given:
            found.append("input `%s`: %s needs it, and no declared input gives it" % (name, where))
    return found


def _required(arguments: ast.arguments) -> List[str]:
    """The parameters without a default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    required = positional[: len(positional) - len(arguments.defaults)]
    required += [one for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults) if default is None]
    return [parameter.arg for parameter in required]
