#!/usr/bin/env bash
# The newest Python of Debian in .cache/python, for tests: `make check NAME=newest-python`. Needs root, debootstrap and patchelf.
#
# The interpreter is not installed into the system. It loads the C library and all others from its own folder, so it
# runs beside those of an older Debian, and virtual environments can be made from it.
set -euo pipefail
folder=$(cd "$(dirname "$0")/../.." && pwd)/.cache/python
suite=${SUITE:-sid}

if [ ! -e "$folder/usr/share/python-wheels" ]; then
    rm -rf "$folder"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates \
        "$suite" "$folder" http://deb.debian.org/debian
fi
python=$(readlink -f "$folder/usr/bin/python3")
libraries=$folder/usr/lib/$(uname -m)-linux-gnu
patchelf --set-interpreter "$(readlink -f "$libraries"/ld-linux-*)" --force-rpath --set-rpath "$libraries" "$python"
# ensurepip takes the wheel of pip from the absolute path that was set when Python was compiled.
sed -i "s|'WHEEL_PKG_DIR': '[^']*'|'WHEEL_PKG_DIR': '$folder/usr/share/python-wheels/'|" \
    "$folder/usr/lib/$(basename "$python")"/_sysconfigdata_*.py
find "$folder/usr/lib/$(basename "$python")/__pycache__" -name '_sysconfigdata_*' -delete
"$python" --version
