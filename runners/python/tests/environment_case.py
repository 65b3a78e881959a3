"""Shared by the tests of environments: a model in a temporary folder, and a fake `uv`, so that no test needs the network."""

import os
import tempfile
import unittest
from pathlib import Path

import support  # noqa: F401, finds the host
from carton_runner import environments
from carton_runner.environments import store
from carton_runner.errors import RunnerError

HASH = "--hash=sha256:" + "1" * 64

#: Records its arguments in a file, takes a while, and fails on request.
FAKE_UV = r"""#!/bin/sh
[ "$1" = --version ] && { echo "uv 0.0.0"; exit 0; }
echo "$@" >> "$FAKE/calls"
env > "$FAKE/environment"
if [ -n "$FAKE_FAILS" ]; then printf '%b\n' "$FAKE_FAILS" >&2; exit 2; fi
for last; do :; done
case "$1 $2" in
venv*) mkdir -p "$last/bin" "$last/lib/python3.0/site-packages" && [ ! -e "$last/half" ] ;;
"pip sync") folder=${last%/*}; echo > "$folder/half"; sleep "${FAKE_TAKES:-0}"; echo > "$folder/whole"
    echo "$FAKE_PACKAGES" > "$folder/lib/python3.0/site-packages/others.pth" ;;
"pip compile")
    what="$*"
    while [ "$1" != --output-file ]; do shift; done
    case "$what" in
    *"--format pylock.toml"*) cp "$FAKE/pylock.toml" "$2"; exit ;;
    *--emit-index-annotation*) printf 'numpy==2.0.0\n    # from %s\n' "${FAKE_INDEX:-https://index.example/simple}" > "$2"; exit ;;
    esac
    echo "numpy==2.0.0 --hash=sha256:1111111111111111111111111111111111111111111111111111111111111111" > "$2" ;;
esac
"""

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
        for name in [name for name in os.environ if name.startswith(("UV", "CARTON_", "FAKE"))]:
            del os.environ[name]
        os.environ.update(UV=str(fake), FAKE=str(fake.parent), CARTON_RUNNER_DATA_DIR=str(self.folder / "data"))

    def write(self, path, text=""):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

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

    def calls(self):
        path = self.folder / "fake/calls"
        return path.read_text().splitlines() if path.exists() else []

    def environment(self):
        (found,) = [path for path in (self.folder / "data" / store.FOLDER).iterdir() if path.is_dir()]
        return found
