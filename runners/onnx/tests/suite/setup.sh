#!/bin/sh
# Makes a Python environment for run.py, and prints its interpreter. An environment that is up to date is not changed.
#
#   runners/onnx/tests/suite/setup.sh target/test-onnx
set -eu

directory=$1
requirements=$(dirname "$0")/requirements.txt
if ! cmp -s "$requirements" "$directory/requirements.txt"; then
    python3 -m venv --clear "$directory"
    "$directory/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements"
    # Only its data is used: operator tests with the models and tensors of their time.
    "$directory/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$directory/onnx-1.18" onnx==1.18.0
    # Written last, so that an interrupted installation is made again.
    cp "$requirements" "$directory/requirements.txt"
fi
echo "$(cd "$directory" && pwd)/bin/python"
