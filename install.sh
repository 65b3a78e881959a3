#!/bin/sh
# Installs the command `carton` for this user, and needs no other rights. Run it again to upgrade.
#
#   sh install.sh                       the release that this script belongs to, into ~/.local
#   sh install.sh --prefix DIR          into DIR/bin and DIR/share
#   sh install.sh --from URL|FOLDER     the release from there
#   sh install.sh --uninstall           deletes what it has installed; models, runners and settings in ~/.carton stay
set -eu

# Where the files of this release are, and the key that signs them. Filled in by scripts/release.
from=''
public_key=''
prefix=${HOME:-}/.local

say() { printf '%s\n' "$*"; }
fail() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }

uninstall=
while [ $# -gt 0 ]; do
    case $1 in
        --prefix | --from) [ $# -ge 2 ] || fail "$1 needs a value" ;;
    esac
    case $1 in
        --prefix) prefix=$2; shift ;;
        --from) from=$2; shift ;;
        --uninstall) uninstall=yes ;;
        -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) fail "there is no option $1; see --help" ;;
    esac
    shift
done
case $prefix in
    /.local) fail "HOME is not set: name the folder to install into with --prefix" ;;
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac
list=$prefix/share/carton/installed-files

# Deletes the files that an installation has listed, and the folders that are empty then.
remove() {
    while read -r file; do
        case /$file/ in */../*) continue ;; esac
        rm -f "$prefix/$file"
        (cd "$prefix" && rmdir -p "$(dirname "$file")" 2>/dev/null) || true
    done <"$1"
}

if [ -n "$uninstall" ]; then
    [ -e "$list" ] || fail "nothing is installed in $prefix: there is no $list"
    remove "$list"
    rmdir "$prefix" 2>/dev/null || true
    say "deleted carton from $prefix"
    exit 0
fi

case $(uname -s)-$(uname -m) in
    Linux-x86_64 | Linux-amd64) platform=x86_64-unknown-linux-gnu ;;
    Linux-aarch64 | Linux-arm64) platform=aarch64-unknown-linux-gnu ;;
    *) fail "there is no release for $(uname -s) on $(uname -m)" ;;
esac
[ -n "$from" ] || fail "say where the release is: --from URL, or --from FOLDER"

# fetch NAME: into the folder for temporary files.
fetch() {
    case $from in
        *://*)
            if command -v curl >/dev/null; then
                curl -fsSL --retry 3 -o "$place/$1" "$from/$1" || fail "cannot fetch $from/$1"
            elif command -v wget >/dev/null; then
                wget -q -O "$place/$1" "$from/$1" || fail "cannot fetch $from/$1"
            else
                fail "neither curl nor wget is installed; download the release and name its folder: --from FOLDER"
            fi
            ;;
        *) cp "$from/$1" "$place/$1" || fail "there is no $from/$1" ;;
    esac
}

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT
trap 'exit 143' HUP TERM
fetch SHA256SUMS
if [ -n "$public_key" ] && command -v minisign >/dev/null; then
    fetch SHA256SUMS.minisig
    minisign -Vqm "$place/SHA256SUMS" -P "$public_key" || fail "$from/SHA256SUMS is not signed by the key $public_key"
elif [ -n "$public_key" ]; then
    say "the signature is not checked, because minisign is not installed"
fi
archive=$(sed -n "s/^[0-9a-f]\{64\}  \(carton-[0-9][^ ]*-$platform\.tar\.gz\)$/\1/p" "$place/SHA256SUMS" | head -n 1)
[ -n "$archive" ] || fail "$from has no program for $platform"
fetch "$archive"
grep " $archive\$" "$place/SHA256SUMS" >"$place/expected"
(cd "$place" && sha256sum -c expected >/dev/null 2>&1) ||
    fail "$archive is damaged or was changed: expected SHA-256 $(cut -d ' ' -f 1 "$place/expected"), found $(sha256sum <"$place/$archive" | cut -d ' ' -f 1)"

mkdir "$place/new"
tar -xzf "$place/$archive" -C "$place/new" --strip-components=1
version=$("$place/new/bin/carton" --version) ||
    fail "the program does not run from $place; it needs glibc 2.28 or later, and a folder for temporary files from which programs may run (TMPDIR)"
mkdir -p "$prefix/bin" "$prefix/share/carton" 2>/dev/null && [ -w "$prefix/bin" ] && [ -w "$prefix/share/carton" ] ||
    fail "cannot write into $prefix; choose a folder of yours with --prefix"
(cd "$place/new" && find . -type f | sed 's|^\./||' && printf '%s\n' bin/.carton.new share/carton/installed-files.new share/carton/installed-files) >"$place/installed-files"
[ ! -e "$list" ] || { grep -vxFf "$place/installed-files" "$list" >"$place/old" || true; }
# Until the end the list has the old files and the new ones: whatever an interruption leaves behind is on it.
if [ -e "$place/old" ]; then cat "$place/old" "$place/installed-files"; else cat "$place/installed-files"; fi >"$place/both"
cp "$place/both" "$list.new"
mv "$list.new" "$list"
cp -R "$place/new/share/." "$prefix/share/"
cp "$place/new/bin/carton" "$prefix/bin/.carton.new"
# The program comes last, by a rename: it is the old one or the new one at any time.
mv "$prefix/bin/.carton.new" "$prefix/bin/carton"
[ ! -e "$place/old" ] || remove "$place/old"
cp "$place/installed-files" "$list.new"
mv "$list.new" "$list"

say "installed $version as $prefix/bin/carton"
say "models need a runner: carton runner install onnx (or torchscript, or python)"
case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) say "add it to PATH, in ~/.profile: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
