"""Packs a model: checks its entry point as far as possible, then ``environments.gathering`` makes its folder.

A model's folder has one of two structures, by the carton's ``runner_compat_version``:
:data:`OF_THE_ORIGINAL`, which the runner of the original Carton runs too, and :data:`OURS`, which only this runner reads.
"""

import ast
import os
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Set

from carton_runner import entry_point, loading, pickled_names, tracebacks
from carton_runner.environments import gathering
from carton_runner.errors import RunnerError
from carton_runner.structure import root

#: The structures of a model's folder. `COMPAT_VERSIONS` in `carton-cli/src/python` is the same list, and
#: `carton-core/src/runner/select.rs` has it too.
OF_THE_ORIGINAL, OURS = 1, 2
_ASKED_FOR = "the metadata asks for this version"


def pack(
    path: Path,
    scratch: Path,
    options,
    pack_options: Dict[str, Any],
    inputs,
    compat_version: Optional[int],
    report,
    leave_out: Sequence[str] = (),
) -> Dict[str, Any]:
    """Returns the fields of ``packed`` (spec/runner-protocol.md section 5) for the model at ``path``, a folder or a
    Python file. ``inputs`` are the declared inputs, ``None`` if none are declared, and ``compat_version`` is the structure that
    the user requests, ``None`` to let this function choose. ``leave_out`` are the paths in the user's folder that are not packed.

    The packed folder is made in ``scratch``; the user's folder is never changed.
    """
    path = Path(os.path.abspath(path))
    options = loading.Options(options, report.warn)
    gathering.check_kind(path)
    # Checked first, so that errors in the model itself are reported before packages are searched.
    entry = entry_point.read(path, options)
    obstacle = _ASKED_FOR if compat_version == OURS else _obstacle(entry, options)
    if compat_version == OF_THE_ORIGINAL and obstacle is not None:
        raise _not_of_the_original(obstacle)
    if any(entry.file == left_out or entry.file.startswith(f"{left_out}/") for left_out in leave_out):
        raise RunnerError(f"`{entry.file}` has the entry point of the model and is left out of it")
    gathered = gathering.gather(path, scratch, pack_options, report, obstacle is None, leave_out)
    _tell_of_lost_names(gathered.model, report)
    packed: Dict[str, Any] = {
        "path": str(gathered.model),
        "required_framework_version": gathered.required_framework_version,
        "mismatches": mismatches(entry, inputs),
        "optional_inputs": optional_inputs(entry, inputs),
    }
    if obstacle is None and gathered.obstacle is None:
        packed["runner_compat_version"] = OF_THE_ORIGINAL
        packed["options"] = {"entrypoint_package": entry.package, "entrypoint_fn": entry.function}
        return packed
    if compat_version == OF_THE_ORIGINAL:
        raise _not_of_the_original(gathered.obstacle)
    # A user who names the entry point with the original's options may expect that the original can run the carton.
    names_the_entry_point = options.entrypoint is not None or options.package is not None
    tell = report.warn if names_the_entry_point and compat_version is None else report.info
    tell(
        f"the carton has `runner_compat_version` {OURS}, and the runner of the original Carton cannot run it: "
        f"{obstacle or gathered.obstacle}"
    )
    packed["runner_compat_version"] = OURS
    return packed


#: How many files and names a warning lists.
_NAMES_SHOWN, _FILES_SHOWN = 3, 10


def _tell_of_lost_names(model: Path, report) -> None:
    """Warns of pickles that cannot be loaded where the model runs. No error, because the model may not read them, or know their classes."""
    for at, (path, found) in enumerate(pickled_names.of_main(model)):
        if at == _FILES_SHOWN:
            report.warn("further pickles name classes or functions of `__main__` too")
            return
        quoted = ", ".join(f"`__main__.{name}`" for name in found[:_NAMES_SHOWN])
        more = f" and {len(found) - _NAMES_SHOWN} more" if len(found) > _NAMES_SHOWN else ""
        report.warn(
            f"the pickle `{path}` names {quoted}{more}: `__main__` was the script or notebook that made it, "
            f"and loading the pickle fails where the model runs; {tracebacks.of_lost_class(found[0])}"
        )


def _not_of_the_original(obstacle: Optional[str]) -> RunnerError:
    return RunnerError(
        f"the model cannot have `runner_compat_version` {OF_THE_ORIGINAL}, which the runner of the original Carton runs: "
        f"{obstacle}",
        hint="leave `runner_compat_version` out of the metadata for a carton that only this runner runs",
    )


def _obstacle(entry, options) -> Optional[str]:
    """Returns the reason why the original Carton cannot call the entry point; ``None`` if it can."""
    if entry.is_model:
        return "it does not know `infer_fn`"
    if options.for_model:
        return f"it gives `{entry.function}` no arguments, and there are `model.NAME` options"
    if entry.is_coroutine():
        return f"it does not await `{entry.function}`, which is a coroutine"
    if not entry.function.isidentifier():
        return f"it looks for a name, which `{entry.function}` is not"
    return None


def mismatches(entry: entry_point.EntryPoint, inputs: Optional[List[Dict[str, Any]]]) -> List[str]:
    """Returns the contradictions between the declared inputs and the parameters of a plain function, as one sentence each.
    ``inputs`` is ``None`` if none are declared."""
    if inputs is None or not entry.is_model or entry.definition is None:
        return []
    arguments = entry.definition.args
    where = "`%s` (%s, line %d)" % (entry.function, entry.file, entry.definition.lineno)
    by_position = {parameter.arg for parameter in arguments.posonlyargs}
    by_name = {parameter.arg for parameter in (*arguments.args, *arguments.kwonlyargs)}
    given = set()
    found = []
    for spec in inputs:
        name = _parameter(spec, by_position | by_name)
        given.add(name)
        if name in by_position:
            found.append("input `%s`: %s takes `%s` by position only" % (spec["name"], where, name))
        elif name not in by_name and arguments.kwarg is None:
            has = ", ".join("`%s`" % parameter.arg for parameter in (*arguments.args, *arguments.kwonlyargs)) or "none"
            found.append("input `%s`: %s has no parameter `%s`; it has %s" % (spec["name"], where, name, has))
    for name in _required(arguments):
        if name not in given:
            found.append("input `%s`: %s needs it, and no declared input gives it" % (name, where))
    return found


def optional_inputs(entry: entry_point.EntryPoint, inputs: Optional[List[Dict[str, Any]]]) -> List[str]:
    """Returns the model's names of the declared inputs that are for parameters with a default, which a call may leave out."""
    if inputs is None or not entry.is_model or entry.definition is None:
        return []
    arguments = entry.definition.args
    names = {parameter.arg for parameter in (*arguments.args, *arguments.kwonlyargs)}
    with_default = names.difference(_required(arguments))
    return [spec.get("internal_name") or spec["name"] for spec in inputs if _parameter(spec, names) in with_default]


def _parameter(spec: Dict[str, Any], names: Set[str]) -> str:
    """Returns the parameter that an input is for: that of its name, or the one whose value it is a leaf of."""
    name = spec.get("internal_name") or spec["name"]
    return root(name) if name not in names and root(name) in names else name


def _required(arguments: ast.arguments) -> List[str]:
    """Returns the names of the parameters without a default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    required = positional[: len(positional) - len(arguments.defaults)]
    required += [one for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults) if default is None]
    return [parameter.arg for parameter in required]
