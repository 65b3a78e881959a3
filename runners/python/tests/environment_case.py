"""Shared by the tests of environments: a model in a temporary folder, and a fake `uv`, so that no test needs the network."""

import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

import support  # noqa: F401, finds the host
from carton_runner import environments
from carton_runner.environments import store
from carton_runner.errors import RunnerError

HASH = "--hash=sha256:" + "1" * 64

#: Records its arguments, its environment and what it is to lock in files of its folder. Files there, which :meth:`Case.fake` writes, let
#: it take a while, or fail: variables of the test do not reach it.
FAKE_UV = r"""#!/bin/sh
[ "$1" = --version ] && { echo "uv 0.0.0"; exit 0; }
FAKE=${0%/*}
asked() { cat "$FAKE/$1" 2> /dev/null || echo "$2"; }
echo "$@" >> "$FAKE/calls"
env > "$FAKE/environment"
fails=$(asked fails) takes=$(asked takes 0)
if [ -n "$fails" ]; then printf '%b\n' "$fails" >&2; exit 2; fi
for last; do :; done
case "$1 $2" in
venv*) mkdir -p "$last/bin" "$last/lib/python3.0/site-packages" && [ ! -e "$last/half" ] ;;
"pip sync") folder=${last%/*}; echo > "$folder/half"; sleep "$takes"; echo > "$folder/whole"
    asked packages > "$folder/lib/python3.0/site-packages/others.pth" ;;
"pip compile")
    what="$*"
    while [ "$1" != --output-file ]; do shift; done
    case "$what" in
    *"--format pylock.toml"*) cp "$FAKE/pylock.toml" "$2"; exit ;;
    *--emit-index-annotation*) printf 'numpy==2.0.0\n    # from %s\n' "$(asked index https://index.example/simple)" > "$2"; exit ;;
    esac
    cp requirements.txt "$FAKE/requirements"; cp constraints.txt "$FAKE/constraints" 2> /dev/null
    echo "numpy==2.0.0 --hash=sha256:1111111111111111111111111111111111111111111111111111111111111111" > "$2" ;;
esac
"""


def real_uv():
    """Returns the path of a real `uv`, or ``None``."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv")


class Report:
    def __init__(self):
        self.texts = []
        self.warnings = []

    def info(self, text):
        self.texts.append(text)

    def warn(self, text):
        self.warnings.append(text)

    def progress(self, what, done, total):
        assert 0 <= done <= total

    def is_wanted(self):
        return True


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="carton test ")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.report = Report()
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        fake = self.write("fake/uv", FAKE_UV)
        fake.chmod(0o755)
        for name in [name for name in os.environ if name.startswith(("UV", "CARTON_"))]:
            del os.environ[name]
        os.environ.update(UV=str(fake), CARTON_RUNNER_DATA_DIR=str(self.folder / "data"))

    def write(self, path, text=""):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def fake(self, **values):
        """Sets what the fake `uv` does: ``fails``, ``takes``, ``packages``, ``index``."""
        for name, value in values.items():
            self.write(f"fake/{name}", value)

    def seen(self, name):
        """What the fake `uv` has recorded: its ``environment``, the last ``requirements`` and ``constraints``."""
        return (self.folder / "fake" / name).read_text()

    def model(self, text=f"numpy==2.0.0 {HASH}\n"):
        self.write("model/.carton/requirements.lock", text)
        return self.folder / "model"

    def prepare(self, model):
        """The folder of packages of the model, found after it was prepared."""
        prepared = environments.prepare(model, self.report)
        found = environments.find(model, self.report)
        self.assertEqual(bool(prepared["in_use"]), found is not None)
        return found

    def unprepared(self, model):
        with self.assertRaises(RunnerError) as caught:
            environments.find(model, self.report)
        self.assertEqual(caught.exception.code, "unprepared")
        return caught.exception

    def locks(self):
        """The calls of the fake `uv` that made a lock."""
        return [call for call in self.calls() if "--generate-hashes" in call]

    def calls(self):
        path = self.folder / "fake/calls"
        return path.read_text().splitlines() if path.exists() else []

    def environment(self):
        (found,) = [path for path in (self.folder / "data" / store.FOLDER).iterdir() if path.is_dir()]
        return found
