"""The typed results of what the extension module has as JSON: the names there are those of the command's `--json`."""

from __future__ import annotations

import json
from typing import Any

from ._diff import carton_diff as carton_diff
from ._results import (
    FileInfo,
    Info,
    OutputResult,
    PackCheck,
    RequiredRunner,
    SandboxRequest,
    SelfTestReport,
    SelfTestResult,
    SigningStatus,
    TensorInfo,
    ZeroRun,
)


def self_test_report(text: str) -> SelfTestReport:
    """The report of the self-tests of a model."""
    return _self_tests(json.loads(text))


def pack_check(text: str) -> PackCheck:
    """The check of a packed model."""
    found = json.loads(text)
    zeros = found.get("zeros")
    return PackCheck(
        runner=found["runner"],
        self_test=_self_tests(found),
        zeros=None if zeros is None else ZeroRun(zeros["ran"], zeros.get("error")),
    )


def signing_status(text: str) -> SigningStatus:
    """Who signed a carton."""
    return SigningStatus(**json.loads(text))


def info(text: str) -> Info:
    """What a carton says of itself."""
    found = json.loads(text)
    runner, signing = found.pop("runner"), found.pop("signing")
    return Info(
        runner=RequiredRunner(
            name=runner["runner_name"],
            framework_version=runner["required_framework_version"],
            compat_version=runner["runner_compat_version"],
            options=runner["opts"],
            env=runner["env"],
        ),
        inputs=[_tensor(spec) for spec in found.pop("inputs")],
        outputs=[_tensor(spec) for spec in found.pop("outputs")],
        sandbox=SandboxRequest(**found.pop("sandbox")),
        signing=None if signing is None else SigningStatus(**signing),
        files=[FileInfo(**file) for file in found.pop("files")],
        **found,
    )


def _self_tests(found: dict[str, Any]) -> SelfTestReport:
    return SelfTestReport(ok=found["passed"], **found["counts"], tests=[_self_test(test) for test in found["self_tests"]])


def _self_test(found: dict[str, Any]) -> SelfTestResult:
    return SelfTestResult(
        name=found["name"],
        outcome=found["outcome"],
        seconds=found["seconds"],
        outputs=[_output(output) for output in found["outputs"]],
        error=found.get("error"),
        hint=found.get("hint"),
    )


def _output(found: dict[str, Any]) -> OutputResult:
    return OutputResult(ok=found.pop("passed"), **found)


def _tensor(found: dict[str, Any]) -> TensorInfo:
    return TensorInfo(
        name=found["name"],
        dtype=found["dtype"],
        shape=found["shape"],
        description=found.get("description"),
        internal_name=found.get("internal_name"),
        optional=bool(found.get("optional")),
    )
