#!/bin/sh
# Makes the Python environment of a peer, and prints its interpreter: setup.sh NAME DIRECTORY
#
# An environment that already has the packages of NAME.txt is not changed. Only this script uses the network. PYTHON is the interpreter to
# make it with (/usr/bin/python3 unless set: pytriton needs that of Debian).
set -eu

requirements=$(dirname "$0")/$1.txt
directory=$2
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=python3
if ! cmp -s "$requirements" "$directory/requirements.txt"; then
    "$python" -m venv --clear "$directory" >&2
    "$directory/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements" >&2
    # Written last, so that an interrupted installation is made again.
    cp "$requirements" "$directory/requirements.txt"
fi
echo "$(cd "$directory" && pwd)/bin/python"
