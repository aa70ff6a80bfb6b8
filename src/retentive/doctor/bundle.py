"""Writes the bundle: a file with diagnostics that users can attach to a problem report.

It has versions of packages, the configuration, statistics, findings and errors. It contains only numbers, booleans,
dates, version numbers and words that this package defines. Texts of users (contents, paths, actors, names, keys,
patterns, URLs) are counted, never copied.
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from importlib import metadata
from typing import TypeAlias, get_args

from retentive import __version__
from retentive.doctor.locations import open_read_only
from retentive.errors import InvalidInput, RetentiveError
from retentive.locations import is_foreign, parse_location
from retentive.opening import Keys, encryption
from retentive.redaction.search import has_re2
from retentive.storage import capabilities
from retentive.storage.contract import Backend, Operation, Snapshot, StoreInfo
from retentive.storage.disk import expanded
from retentive.storage.findings import Finding
from retentive.storage.sqlite.connection import library_version
from retentive.values.records import SYSTEM_STORE
from retentive.values.settings import SEARCH_LANGUAGES, SENSITIVE_MODES, from_text

Facts: TypeAlias = dict[str, object]

ENDINGS = (".zip", ".tar.gz", ".tgz")
_VARIABLES = ("RETENTIVE_AT", "RETENTIVE_STORE", "RETENTIVE_KEYS", "RETENTIVE_KEYS_FILE", "RETENTIVE_API_KEY")
_WORDS = frozenset({*SENSITIVE_MODES, *SEARCH_LANGUAGES})
"""Values of settings that may be copied, because this package defines them and users cannot choose others."""
_HIDDEN = "hidden"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_README = """\
Diagnostics of retentive, to attach to a report of a problem.

versions.json       Python, SQLite, platform, retentive and its dependencies
configuration.json  kind of storage, and the settings of the stores; texts and patterns are only counted
statistics.json     numbers and sizes of each memory store
findings.json       findings of `retentive doctor`, without their subjects
errors.json         errors while this file was made; retentive itself keeps no log of errors

Memory stores are numbered in the order of their creation. There are no memories, paths, actors, names, keys,
descriptions, patterns, host names or URLs.
"""


def write_bundle(
    file: str | os.PathLike[str],
    at: str | os.PathLike[str],
    findings: Sequence[Finding],
    *,
    keys: Keys | None = None,
    errors: Sequence[str] = (),
) -> None:
    """Write the bundle of a location to a new file that only its owner can read.

    The ending of the file name selects the format, zip or tar. `findings` are those of the doctor. `errors` are the
    codes of errors that ended the doctor's check. Raises `InvalidInput` for an unknown ending, and if the file exists
    or cannot be created.
    """
    name = check_name(file)
    parts = collected(at, findings, keys=keys, errors=errors)
    data = _zip(parts) if name.endswith(".zip") else _tar(parts)
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidInput(f"the bundle file cannot be created: {error.strerror}") from None
    with open(descriptor, "wb") as out:
        out.write(data)


def check_name(file: str | os.PathLike[str]) -> str:
    """Return the name of the file. Raises `InvalidInput` if its ending is unknown, or if the file exists."""
    name = expanded(file)
    if not name.endswith(ENDINGS):
        raise InvalidInput(f"the name of the bundle must end with {' or '.join(ENDINGS)}")
    if os.path.lexists(name):
        raise InvalidInput("the bundle file already exists; choose another name")
    return name


def collected(
    at: str | os.PathLike[str], findings: Sequence[Finding], *, keys: Keys | None = None, errors: Sequence[str] = ()
) -> dict[str, str]:
    """Return the names and texts of the files in the bundle. Errors are recorded in `errors.json`."""
    failed: list[Facts] = [{"during": "check", "code": code} for code in errors]
    stores: list[StoreInfo] = []
    settings: list[Facts] = []
    statistics: list[Facts] = []
    try:
        if not errors and not is_foreign(at):  # a directory that retentive never opened has no stores
            with closing(encryption(keys)(open_read_only(at))) as backend:
                listed = (info for info in backend.list_stores() if info.id != SYSTEM_STORE)
                stores = sorted(listed, key=lambda info: (info.created_at, info.id))
                for number, info in enumerate(stores, 1):
                    _add_store(backend, number, info, settings=settings, statistics=statistics, failed=failed)
    except Exception as error:
        failed.append({"during": "statistics"} | _error(error))
    numbers = {info.id: number for number, info in enumerate(stores, 1)}
    parts = {
        "versions.json": versions(),
        "configuration.json": _configuration(at, keys) | {"stores": settings},
        "statistics.json": {"stores": statistics},
        "findings.json": [_finding(each, numbers) for each in findings],
        "errors.json": failed,
    }
    return {"README.txt": _README} | {name: json.dumps(value, indent=1) + "\n" for name, value in parts.items()}


def _add_store(
    backend: Backend,
    number: int,
    info: StoreInfo,
    *,
    settings: list[Facts],
    statistics: list[Facts],
    failed: list[Facts],
) -> None:
    about: Facts = {"store": number, "created_on": info.created_at.date().isoformat(), "encrypted": bool(info.seal)}
    about |= {"memories": info.memories, "size_bytes": info.size_bytes}
    try:
        capabilities.unlock(backend, info)
        found, changed = backend.read(info.id, _of_store)
        about |= found
        settings.append({"store": number, "changed_settings": changed})
    except Exception as error:  # damaged data can raise any error
        failed.append({"during": "statistics", "store": number} | _error(error))
    statistics.append(about)


def _of_store(snapshot: Snapshot) -> tuple[Facts, Facts]:
    """Return the counts of a store and its changed settings. Values that a user wrote are replaced."""
    by_operation: dict[str, int] = dict.fromkeys(get_args(Operation), 0)
    total_bytes = total = 0
    for version in snapshot.versions():
        total += 1
        if version.operation in by_operation:  # a damaged operation can be any text
            by_operation[version.operation] += 1
        total_bytes += version.size_bytes or 0
    sizes = sorted(size for _, size in snapshot.sizes("/memories"))
    usage = snapshot.usage()
    counts: Facts = {"memories": usage.memories, "size_bytes": usage.size_bytes, "versions": total}
    counts |= {"versions_bytes": total_bytes, "versions_by_operation": by_operation}
    counts |= {"largest_bytes": sizes[-1] if sizes else 0, "median_bytes": sizes[len(sizes) // 2] if sizes else 0}
    text = snapshot.settings
    stored = json.loads(text) if text else {}
    values = asdict(from_text(text))
    return counts, {name: safe_setting(values[name]) for name in stored if name in values}


def safe_setting(value: object) -> object:
    """Return the value of a setting for the bundle.

    Numbers, booleans and words that this package defines are returned unchanged. Any other value is replaced by the
    number of its elements.
    """
    if value is None or isinstance(value, bool | int) or (isinstance(value, str) and value in _WORDS):
        return value
    if isinstance(value, Mapping | list | tuple):
        if not isinstance(value, Mapping) and value and all(each in SEARCH_LANGUAGES for each in value):
            return list(value)
        return {_HIDDEN: len(value)}
    return {_HIDDEN: 1}


def versions() -> Facts:
    """Return the versions of Python, SQLite, the platform, retentive and its dependencies.

    The version of a dependency that is not installed is None.
    """
    try:
        required = metadata.requires("retentive") or []
    except metadata.PackageNotFoundError:
        required = []
    names = sorted({found.group() for each in required if (found := _NAME.match(each))}, key=str.lower)
    return {
        "retentive": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "sqlite": library_version(),
        "platform": {"system": platform.system(), "release": platform.release(), "machine": platform.machine()},
        "libc": " ".join(platform.libc_ver()),
        "file_system_encoding": sys.getfilesystemencoding(),
        "re2": has_re2(),
        "dependencies": {name: _installed(name) for name in names},
    }


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _configuration(at: str | os.PathLike[str], keys: Keys | None) -> Facts:
    """Return the kind of storage, and the names of the options that are set.

    The rest of the location is left out, because it may contain secrets.
    """
    try:
        kind = parse_location(at)[0] or "directory"
    except RetentiveError:
        kind = "unknown"
    return {
        "storage": kind,
        "location": _HIDDEN,
        "has_encryption_keys": keys is not None,
        "environment": {name: _HIDDEN if name in os.environ else None for name in _VARIABLES},
    }


def _finding(finding: Finding, numbers: Mapping[str, int]) -> Facts:
    number = None if finding.store_id is None else numbers.get(finding.store_id, _HIDDEN)
    kind = finding.kind
    return {
        "severity": finding.severity,
        "store": number,
        "code": finding.code,
        "meaning": kind.meaning,
        "advice": kind.advice,
    }


def _error(error: Exception) -> Facts:
    """Return the type and code of an error. Its message is left out, because it may contain stored data."""
    return {"type": type(error).__name__, "code": error.code if isinstance(error, RetentiveError) else None}


def _zip(parts: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(f"retentive-bundle/{name}", text)
    return out.getvalue()


def _tar(parts: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in parts.items():
            data = text.encode()
            info = tarfile.TarInfo(f"retentive-bundle/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()
