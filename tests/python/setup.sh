#!/bin/sh
# Makes a Python environment for the tests that compare Carton with NumPy and other libraries, and prints the variables that they need.
#
#   tests/python/setup.sh target/test-python
#   CARTON_TEST_PYTHON=$PWD/target/test-python/bin/python cargo test --workspace
#
# An environment that already has the packages of requirements.txt is not changed. Only this script uses the network.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: $0 DIRECTORY" >&2
    exit 2
fi
directory=$1
requirements=$(dirname "$0")/requirements.txt
# An existing environment may be replaced, so it must be one that this script made.
if [ -L "$directory" ]; then
    echo "$0: $directory is a symbolic link" >&2
    exit 2
fi

if ! cmp -s "$requirements" "$directory/requirements.txt"; then
    if ! python3 -m venv --clear "$directory"; then
        echo "hint: this needs python3 with venv and pip (Debian: apt-get install python3-venv)" >&2
        exit 1
    fi
    "$directory/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements"
    # Two versions of a library cannot be in one environment: these are imported from folders of their own.
    "$directory/bin/python" -m pip install --quiet --disable-pip-version-check --target "$directory/ztensor-1.1" \
        ztensor==1.1.1 --no-deps cffi==2.1.1 pycparser==3.0
    "$directory/bin/python" -m pip install --quiet --disable-pip-version-check --target "$directory/ztensor-2" \
        ztensor==2.1.2 --no-deps
    # Written last, so that an interrupted installation is made again.
    cp "$requirements" "$directory/requirements.txt"
fi
echo "CARTON_TEST_PYTHON=$(cd "$directory" && pwd)/bin/python"
