"""Real documents of this machine that hold nothing sensitive: installed packages, manuals, settings, logs, catalogues.

Every machine has others. The choice among them is fixed by a hash of the path, and so is the half each belongs to.
"""

from __future__ import annotations

import gettext
import gzip
import hashlib
import heapq
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.detection.benign import Document
from support.detection.cases import half_of
from support.detection.draw import ALPHABETS
from support.detection.tokens import OWN_PREFIX

MAX_READ_BYTES = 4_000_000
MAX_CHARS = 100_000  # a memory holds 102,400 bytes by default
MIN_CHARS = 200
CANDIDATES = 6  # for each document wanted, because many files of a package are alike or no text
PER_FOLDER = 6  # elsewhere than in the flat folders of a system
FLAT = ("catalogue", "manual", "checksums", "file list", "symbols", "settings", "certificate")
LANGUAGES = ("de", "fr", "es", "ja", "zh_CN", "it", "pt_BR", "ru")
SKIPPED = {
    "__pycache__", ".git", ".hg", ".cache", "proc", "sys", "dev", "run", "tmp", "lost+found", "ssl", "private", "ssh",
    ".ssh", "sudoers.d", "shadow", "shadow-", "gshadow", "gshadow-", "passwd-", "debian.cnf",
}  # fmt: skip
NAMES = {
    "package-lock.json": "lock file", ".package-lock.json": "lock file", "yarn.lock": "lock file",
    "pnpm-lock.yaml": "lock file", "Cargo.lock": "lock file", "poetry.lock": "lock file", "uv.lock": "lock file",
    "go.sum": "lock file", "Gemfile.lock": "lock file", "npm-shrinkwrap.json": "lock file", "RECORD": "RECORD",
    "METADATA": "METADATA", "package.json": "manifest", "Cargo.toml": "manifest", "pyproject.toml": "manifest",
    "setup.cfg": "manifest", "Makefile": "build file", "CMakeLists.txt": "build file", "copyright": "license",
    "LICENSE": "license", "LICENSE.txt": "license", "LICENSE.md": "license", "COPYING": "license",
}  # fmt: skip
ENDINGS = {
    ".py": "python", ".pyi": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".ts": "typescript", ".c": "c and c++", ".h": "c and c++", ".hpp": "c and c++", ".cc": "c and c++", ".rs": "rust",
    ".go": "go", ".java": "java", ".rb": "ruby", ".php": "php", ".pl": "perl", ".pm": "perl", ".sh": "shell",
    ".sql": "sql", ".vim": "vim", ".html": "html", ".css": "css", ".svg": "svg", ".map": "source map", ".json": "json",
    ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".ini": "settings", ".cfg": "settings", ".conf": "settings",
    ".xml": "xml", ".pom": "manifest", ".csv": "csv", ".md": "markdown", ".rst": "rst", ".txt": "text", ".log": "log",
    ".md5sums": "checksums", ".list": "file list", ".crt": "certificate", ".cmake": "build file", ".mo": "catalogue",
    ".po": "catalogue", ".symbols": "symbols",
}  # fmt: skip


def _shapes() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Private keys, JWT, credentials under their usual name and vendor tokens, each with a literal part of it."""
    random = r"(?=[\w+/=-]*\d)(?=[\w+/=-]*[A-Z])(?=[\w+/=-]*[a-z])[\w+/=-]{24,}"
    yield "PRIVATE KEY", re.compile(r"PRIVATE KEY(?: BLOCK)?-----")
    yield "eyJ", re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{4,}\.[\w-]{20,}")
    yield "Basic ", re.compile(r"Authorization: Basic [\w+/]{16,}")
    for name in ("oken", "ecret", "assword", "ApiKey", "TOKEN", "SECRET", "PASSWORD", "API_KEY"):
        yield name, re.compile(rf"{name}[\"']?(?: ?[:=] ?| => )[\"']?{random}")
    slot = re.compile(r"<(\w+)(?::(\d+))?>")
    for _, template, _ in OWN_PREFIX:
        prefix = template.partition("<")[0]
        pattern, at = re.escape(prefix), len(prefix)
        for each in slot.finditer(template):
            name, length = each.group(1), each.group(2)
            characters = f"[{re.escape(ALPHABETS[name])}]" if name in ALPHABETS else r"[\w-]"
            count = f"{{{length}}}" if name in ALPHABETS else "{6,}"
            pattern += re.escape(template[at : each.start()]) + characters + count
            at = each.end()
        if len(prefix) >= 4:
            yield prefix, re.compile(rf"(?<![\w+/-]){pattern}{re.escape(template[at:])}(?![\w+/])")


_SECRETS = list(_shapes())
"""A document that shows one of them, even as an example, is not benign."""


@dataclass(kw_only=True)
class Collection:
    """Documents found, and the number of files passed over by reason."""

    documents: list[Document] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)


def default_roots() -> list[Path]:
    """Folders of installed software, settings and logs."""
    home = Path.home()
    named = ["/usr", "/etc", "/opt", "/var/log", "/var/lib/dpkg/info", "/Library", sys.prefix, sys.base_prefix]
    own = [home / ".rustup", home / ".cargo/registry", home / ".npm/_logs", home / "go/pkg/mod"]
    return [Path(name) for name in named] + own


def collect(roots: Iterable[Path], *, per_kind: int, half: str | None = None) -> Collection:
    """Up to `per_kind` documents of each kind, of one half or of both."""
    made = Collection()
    texts: set[str] = set()
    for kind, paths in sorted(_candidates(roots, per_kind * CANDIDATES, half).items()):
        folders: Counter[str] = Counter()
        count = 0
        for path in paths:
            if count == per_kind:
                break
            folder = os.path.dirname(path)
            if folders[folder] >= PER_FOLDER and not kind.startswith(FLAT):
                made.passed_over["many in one folder"] += 1
                continue
            text, reason = _read(path)
            digest = hashlib.sha256(text.encode()).hexdigest()
            if reason or digest in texts:
                made.passed_over[reason or "seen before"] += 1
                continue
            texts.add(digest)
            folders[folder] += 1
            count += 1
            made.documents.append(Document(kind=kind, name=path, half=half_of(path), text=text))
    return made


def _candidates(roots: Iterable[Path], limit: int, half: str | None) -> dict[str, list[str]]:
    """Paths by kind, those with the smallest hash."""
    found: dict[str, list[tuple[int, str]]] = {}
    for path in _files(roots):
        kind = kind_of(path)
        if kind is None or half not in (None, half_of(path)):
            continue
        heap = found.setdefault(kind, [])
        rank = -int.from_bytes(hashlib.sha256(path.encode("utf-8", "surrogateescape")).digest()[8:16])
        if len(heap) < limit:
            heapq.heappush(heap, (rank, path))
        elif rank > heap[0][0]:
            heapq.heapreplace(heap, (rank, path))
    return {kind: [path for _, path in sorted(heap, reverse=True)] for kind, heap in found.items()}


def _files(roots: Iterable[Path]) -> Iterator[str]:
    done: set[str] = set()
    for root in roots:
        for folder, below, files in os.walk(root):
            real = os.path.realpath(folder)
            below[:] = [] if real in done else [name for name in below if name not in SKIPPED]
            if real not in done:
                done.add(real)
                yield from (f"{folder}/{name}" for name in files if name not in SKIPPED)


def kind_of(path: str) -> str | None:
    """Kind of document by path, None for files of no interest."""
    folder, _, name = path.rpartition("/")
    name = name.removesuffix(".gz")
    if name in NAMES:
        return NAMES[name]
    if "/man/" in path and folder.rpartition("/")[2].startswith("man"):
        language = path.partition("/man/")[2].partition("/")[0]
        return "manual" if language.startswith("man") else "manual, translated"
    lower = name.lower()
    if lower.startswith(("changelog", "changes", "news", "history")):
        return "changelog"
    if path.startswith("/var/log/"):
        return "log"
    if lower.endswith((".min.js", ".min.css")):
        return "minified"
    kind = ENDINGS.get(os.path.splitext(lower)[1])
    if kind == "catalogue":
        known = next((part for part in path.split("/") if part in LANGUAGES), None)
        return f"catalogue, {known}" if known else None
    if kind in ("json", "yaml") and "schema" in lower:
        return "schema"
    return kind or ("settings" if path.startswith("/etc/") else None)


def _read(path: str) -> tuple[str, str]:
    """Text of a file up to a line end, or the reason to pass over it."""
    if os.path.islink(path):
        return "", "link"
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_READ_BYTES)
        if path.endswith(".gz"):
            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MAX_READ_BYTES)
        if path.endswith(".mo"):
            translations = gettext.GNUTranslations(io.BytesIO(data))
            catalogue: dict[object, str] = vars(translations)["_catalog"]
            data = "\n".join(text for key, text in catalogue.items() if key).encode()
        text = data.decode()
    except (OSError, EOFError, ValueError, LookupError):
        return "", "not readable as UTF-8 text"
    if len(text) > MAX_CHARS:
        text = text[: text.rfind("\n", 0, MAX_CHARS) + 1] or text[:MAX_CHARS]
    if len(text) < MIN_CHARS:
        return "", "short"
    if any(char in text for char in "\x00\x1b\x08\x0c"):
        return "", "control characters"
    if any(literal in text and shape.search(text) for literal, shape in _SECRETS):
        return "", "holds a key or token"
    return text, ""
