#!/usr/bin/env python3
"""Runs one program for each of many Python packages as a model, in the sandbox and without it, and compares the results with the stored
table, `results.tsv`.

    tests/packages/run.py --carton target/debug/carton [--only NAME…] [--part quick] [--json] [--write]

A program is a file in `programs/`. Its function `run` returns `{"numbers": […]}`. Each has one of these results:

- `equal`: it returns the same numbers in the sandbox and without it;
- `differs`: it returns others;
- `fails`: it fails in the sandbox, and works without it;
- `not compared`: it cannot be packed, or fails without the sandbox, too.

A program that is `equal` in the table and is not here fails the run.
"""

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE / "results.tsv"
COLUMNS = ["package", "part", "result", "reason"]
PARTS = ["quick", "slow"]

# The series of Python that the versions in `programs/` are pinned for.
SERIES = "3.11"

# Seconds for a command, which may fetch a gigabyte of packages first. `--timeout` is for the call alone.
COMMAND_TIMEOUT = 1800

# Threads may add numbers in another order.
RELATIVE_TOLERANCE = 1e-6

CRASH = re.compile(r"runner python \S+ (died: .*?)(?:; its last words:)?$")
NAMES_ERROR = re.compile(r"(?:\w(?:Error|Exception)|\berror|\bfatal)\b.*:", re.IGNORECASE)

METADATA = """
input = []

[runner.opts]
infer_fn = "run"

[[output]]
name = "numbers"
dtype = "float64"
shape = ["n"]
"""


@dataclass
class Program:
    """A file in `programs/`, with what its comments say."""

    package: str
    source: str
    part: str
    requires: list
    # A permission that packing and loading need: `build`.
    allow: str

    @classmethod
    def read(cls, path):
        source = path.read_text()
        said = dict(re.findall(r"^# (part|requires|allow): *(.*)$", source, re.MULTILINE))
        if said.get("part") not in PARTS or "requires" not in said:
            raise SystemExit(f"{path}: expected `# part: quick` or `# part: slow`, and `# requires: …`")
        return cls(path.stem, source, said["part"], said["requires"].split(), said.get("allow", ""))

    def version(self):
        """The version of the package itself, which is the first of the required ones. Python's own modules have none."""
        return self.requires[0].partition("==")[2] if self.requires else ""


@dataclass
class Outcome:
    package: str
    version: str
    part: str
    result: str
    reason: str
    stored: str
    # The whole error, with the traceback.
    error: str
    seconds: float


class CommandFailed(Exception):
    """A command of `carton` failed. Its text is the whole error."""

    def __init__(self, reason, text):
        super().__init__(text)
        self.reason = reason


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--carton", required=True, type=Path, help="the program; its python runner must be installed")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these programs")
    parser.add_argument("--part", choices=PARTS, help="the programs of one part")
    parser.add_argument("--timeout", type=int, default=180, metavar="SECONDS", help="for each call [default: 180]")
    parser.add_argument("--json", action="store_true", help="print one object, with whole errors")
    parser.add_argument("--write", action="store_true", help="write the results of this run into the table")
    arguments = parser.parse_args()

    programs = [Program.read(path) for path in sorted(HERE.glob("programs/*.py"))]
    names = {program.package for program in programs}
    unknown = set(arguments.only or []) - names
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    table = read_table()
    outcomes = []
    for program in programs:
        if (arguments.part and program.part != arguments.part) or (arguments.only and program.package not in arguments.only):
            continue
        outcome = compare(program, arguments.carton.resolve(), arguments.timeout, table.get(program.package, {}).get("result", ""))
        outcomes.append(outcome)
        if not arguments.json:
            print(line(outcome), flush=True)
    if arguments.write:
        write_table({name: row for name, row in table.items() if name in names}, outcomes)
        failed = 0
    else:
        failed = sum(outcome.stored == "equal" and outcome.result != "equal" for outcome in outcomes)
    if arguments.json:
        print(json.dumps({"failed": failed, "results": [asdict(outcome) for outcome in outcomes]}, indent=2, ensure_ascii=False))
    else:
        print(f"{len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed else 0


def compare(program, carton, timeout, stored):
    """Packs a program and runs it with and without the sandbox."""
    start = time.monotonic()
    error = ""
    with tempfile.TemporaryDirectory(prefix="carton-packages-") as folder:
        folder = Path(folder)
        try:
            # Without the sandbox first: what fails there says nothing about the sandbox.
            model = pack(program, carton, folder)
            expected = run(program, carton, model, "off", timeout)
        except CommandFailed as failure:
            result, reason, error = "not compared", failure.reason, str(failure)
        else:
            try:
                found = run(program, carton, model, "on", timeout)
            except CommandFailed as failure:
                result, reason, error = "fails", failure.reason, str(failure)
            else:
                reason = difference(found, expected)
                result = "differs" if reason else "equal"
    seconds = round(time.monotonic() - start, 1)
    return Outcome(program.package, program.version(), program.part, result, reason, stored, error, seconds)


def pack(program, carton, folder):
    """Returns the carton of a program. It is not checked, because that would run the program in the sandbox."""
    model = folder / "model"
    model.mkdir()
    (model / "model.py").write_text(program.source)
    (model / "requirements.txt").write_text("".join(f"{each}\n" for each in program.requires))
    (folder / "carton.toml").write_text(METADATA)
    packed = folder / "model.carton"
    options = ["--runner", "python", "--framework-version", f"~{SERIES}", "--metadata", folder / "carton.toml", "--no-check", "-o", packed]
    command([carton, "pack", model, *options, *allowed(program), "--json"], folder)
    return packed


def run(program, carton, model, sandbox, timeout):
    """Returns the numbers of a program."""
    options = ["--sandbox", sandbox, "--timeout", f"{timeout}s", "--device", "cpu"]
    answer = command([carton, "run", model, *options, *allowed(program), "--json"], model.parent)
    return [float(number) for number in answer["outputs"]["numbers"]["data"]]


def allowed(program):
    return ["--allow", program.allow] if program.allow else []


def command(arguments, folder):
    """Returns the object that a command prints."""
    try:
        ended = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=COMMAND_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"no end after {COMMAND_TIMEOUT} s", "") from None
    if ended.returncode == 0:
        return json.loads(ended.stdout)
    text = f"exit code {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    try:
        error = json.loads(ended.stdout)["error"]
    except ValueError:
        raise CommandFailed(short(ended.stderr), text) from None
    # The first cause is the exception, the next one its traceback.
    causes = error["causes"]
    whole = "\n".join([error["message"], *causes])
    raise CommandFailed(short(causes[0] if causes else error["message"]), f"{whole}\n{ended.stderr}")


def short(text):
    """The line that says most, without what another run has otherwise: of a crash the first one, otherwise the last one that names an error."""
    lines = [each.strip() for each in text.splitlines() if each.strip()] or ["no message"]
    crash = CRASH.match(lines[0])
    naming = [each for each in lines if NAMES_ERROR.search(each)]
    chosen = crash[1] if crash else (naming or lines)[-1]
    # Folders of this machine, temporary names, processes and addresses.
    chosen = re.sub(r"(?<![\w.:])/(?!proc/|sys/|dev/|etc/)(?:[\w.+=-]+/)+", "…/", chosen)
    chosen = re.sub(r"…/tmp\w{8}\b", "…", chosen)
    chosen = re.sub(r"/proc/\d+/", "/proc/PID/", chosen)
    chosen = re.sub(r"0x[0-9a-f]{6,}", "0x…", chosen)
    return chosen if len(chosen) <= 160 else chosen[:159] + "…"


def difference(found, expected):
    """Says what differs, empty if nothing does."""
    if len(found) != len(expected):
        return f"{len(found)} numbers, expected {len(expected)}"
    for position, (one, two) in enumerate(zip(found, expected)):
        same = math.isclose(one, two, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-9) or (math.isnan(one) and math.isnan(two))
        if not same:
            return f"number {position} is {one}, expected {two}"
    return ""


def line(outcome):
    """A line of the printed table."""
    name = f"{outcome.package} {outcome.version}".strip()
    changed = f" (before: {outcome.stored})" if outcome.stored and outcome.stored != outcome.result else ""
    return f"{name:36} {outcome.seconds:6.1f} s  {outcome.result + changed:14} {outcome.reason}".rstrip()


def read_table():
    """The rows of the stored table, by package."""
    if not TABLE.exists():
        return {}
    rows = [dict(zip(COLUMNS, each.split("\t"))) for each in TABLE.read_text().splitlines() if not each.startswith("#")]
    return {row["package"]: row for row in rows if row["package"] != COLUMNS[0]}


def write_table(table, outcomes):
    for outcome in outcomes:
        table[outcome.package] = {column: getattr(outcome, column) for column in COLUMNS}
    rows = ["\t".join(row.get(column, "") for column in COLUMNS).rstrip() for _, row in sorted(table.items())]
    TABLE.write_text("\n".join(["\t".join(COLUMNS), *rows]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
