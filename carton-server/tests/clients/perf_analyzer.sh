#!/bin/sh
# Installs NVIDIA's load generator, and prints its program: perf_analyzer.sh DIRECTORY PYTHON
#
# The program is built for glibc 2.38. An older Debian runs it with the libraries of Debian 13, which are unpacked beside it and touch nothing
# else. Fails with the reason where neither is possible. PYTHON is an interpreter with pip.
set -eu
directory=$1 python=$2
program=$directory/perf_analyzer
if [ -x "$program" ]; then
    echo "$program"
    exit
fi
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "perf_analyzer is built for Linux on x86_64 alone" >&2
    exit 1
fi
rm -rf "$directory"
mkdir -p "$directory/debian/lists/partial" "$directory/debian/archives/partial"
directory=$(cd "$directory" && pwd)
program=$directory/perf_analyzer
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --platform manylinux_2_38_x86_64 --dest "$directory" perf-analyzer==2.60.0
"$python" -m zipfile -e "$directory"/perf_analyzer-*.whl "$directory/wheel"
binary=$directory/wheel/perf_analyzer/bin/perf_analyzer
chmod +x "$binary"

if "$binary" --version >/dev/null 2>&1; then
    start="exec '$binary'"
else
    # From the mirror that this machine uses for Debian.
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian //p' | head -n 1)
    if [ -z "$mirror" ]; then
        echo "perf_analyzer needs glibc 2.38, and this is no Debian that could get it beside its own" >&2
        exit 1
    fi
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [signed-by=$keys] $mirror trixie main" >"$directory/debian/sources.list"
    apt() {
        apt-get -qq -o Dir::Etc::SourceList="$directory/debian/sources.list" -o Dir::Etc::SourceParts=/dev/null \
            -o Dir::State="$directory/debian" -o Dir::State::Status=/dev/null -o Dir::Cache="$directory/debian" \
            -o APT::Sandbox::User=root "$@" >&2
    }
    apt update
    (cd "$directory/debian/archives" && apt download libc6 libgcc-s1 libssl3t64 libstdc++6 libzstd1 zlib1g)
    for package in "$directory"/debian/archives/*.deb; do
        dpkg-deb --extract "$package" "$directory/libraries"
    done
    libraries=$directory/libraries/usr/lib/x86_64-linux-gnu
    start="exec '$libraries/ld-linux-x86-64.so.2' --library-path '$libraries' '$binary'"
    rm -r "$directory/debian"
fi
# Written last, so that an interrupted installation is made again.
printf '#!/bin/sh\n%s "$@"\n' "$start" >"$program.part"
chmod +x "$program.part"
mv "$program.part" "$program"
echo "$program"
