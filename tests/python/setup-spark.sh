#!/bin/sh
# Makes a Python environment with PySpark for the tests of examples/spark and of the Python module, and prints the variables that they need.
#
#   eval "$(tests/python/setup-spark.sh target/test-spark)"
#
# An environment that already has the packages of requirements.txt is not changed. PySpark is 450 MB; `uv`, if present, installs it
# faster. Exits with status 1, and prints the reason, if there is no Java.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: $0 DIRECTORY" >&2
    exit 2
fi
directory=$1
requirements=$(dirname "$0")/../../examples/spark/requirements.txt

# Whether Spark 4 runs on the Java in a folder.
is_usable() { "$1/bin/java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\)[."].*/\1/p' | grep -qE '^(1[7-9]|[2-9][0-9])$'; }

home=${JAVA_HOME:-}
if [ -z "$home" ]; then
    java=$(command -v java) || { echo "there is no java, and JAVA_HOME names none; PySpark needs Java 17" >&2; exit 1; }
    home=$(dirname "$(dirname "$(readlink -f "$java")")")
fi
if ! is_usable "$home"; then
    echo "the Java in $home is not 17 or later, which PySpark needs" >&2
    exit 1
fi

if ! cmp -s "$requirements" "$directory/requirements.txt"; then
    if command -v uv >/dev/null; then
        uv venv --quiet --clear "$directory" >&2
        uv pip install --quiet --python "$directory/bin/python" --requirement "$requirements" >&2
    else
        python3 -m venv --clear "$directory" >&2
        "$directory/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements" >&2
    fi
    # Written last, so that an interrupted installation is made again.
    cp "$requirements" "$directory/requirements.txt"
fi
printf "export CARTON_TEST_SPARK='%s' JAVA_HOME='%s'\n" "$(cd "$directory" && pwd)/bin/python" "$home"
