"""JSON lines of archives: the facts of a memory store, its versions with their texts, and its records."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast, get_args

from retentive.errors import Damaged, InvalidInput, Refused, UnknownSchema
from retentive.storage.contract import DEFAULT_WORKSPACE, Actor, Memory, Operation, Version, plain_name
from retentive.values.paths import MemoryPath
from retentive.values.records import HIGHEST_COUNTER, to_us

FORMAT = 1
_LONG_IN_JSON = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")  # each takes six bytes in a string of JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Facts of a memory store, in the first line of its entry.

    `settings`, `properties` and `seal` have the form in which the backend stores them. `seal` is set only if an
    encrypted memory store is copied in encrypted form. `digest` is that of its memories.
    """

    id: str
    key: str | None
    name: str
    created_at: datetime
    revision: int
    memories: int
    size_bytes: int
    versions: int
    digest: str
    seal: str | None = None
    settings: str | None = None
    properties: str | None = None
    workspace_id: str = DEFAULT_WORKSPACE


@dataclass(frozen=True, slots=True)
class Copied:
    """Version to copy, with its text. A deletion or redacted version has no text."""

    version: Version
    data: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Record:
    """Record of a memory store."""

    kind: str
    key: str
    value: str


Line: TypeAlias = Header | Copied | Record


def is_absent(version: Version) -> bool:
    """Return whether a version leaves no memory. A redacted version does not say whether it deleted its memory."""
    return version.operation == "deleted" or version.redacted_at is not None


def digest_of(memories: Iterable[Memory]) -> str:
    """Return a digest of the paths, ids and hashes of memories."""
    digest = hashlib.sha256()
    for memory in sorted(memories, key=lambda memory: memory.path):
        digest.update(f"{memory.sha256} {memory.path} {memory.id} {memory.version_id}\n".encode())
    return digest.hexdigest()


def to_line(value: Line) -> bytes:
    """Return a value as a line of JSON."""
    facts, own = value.version if isinstance(value, Copied) else value, dict[str, object]()
    if isinstance(value, Copied):
        text = None if value.data is None or value.version.seal is not None else value.data.decode()
        is_short = text is not None and not _LONG_IN_JSON.search(text)
        own = {"text": text if is_short else None, "data": None if is_short else value.data}
    names = _PARSERS[type(facts)]
    return to_json({"line": type(facts).__name__.lower()} | {name: getattr(facts, name) for name in names} | own)


def to_json(values: Mapping[str, object]) -> bytes:
    """Return a JSON object as a line."""
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False, default=_plain).encode() + b"\n"


def parse_line(line: bytes) -> Line:
    """Return the value in a line. Raises `Damaged`."""
    with _reading("a line"):
        given = json.loads(line)
        kind = {"header": Header, "record": Record, "version": Version}[given["line"]]
    with _reading(f"a {given['line']}"):
        value = kind(**_parsed(given, _PARSERS[kind]))
        if not isinstance(value, Version):
            return cast("Line", value)
        text, data = _parsed(given, _TEXT).values()
        if not value.path and value.redacted_at is None:
            raise Damaged(f"the version {value.id} in the file has no path")
        return Copied(value, data if text is None else text.encode())


def check_format(about: bytes) -> None:
    """Raise `UnknownSchema` if the description of a file has a newer format, and `Damaged` if it cannot be parsed."""
    with _reading("the description"):
        number = _number(json.loads(about)["format"])
    if number > FORMAT:
        known = f"this version of retentive supports only format {FORMAT}"
        raise UnknownSchema(f"the file has format {number}, but {known}; upgrade retentive")


@contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except Refused:
        raise Damaged(f"{what} in the file has a path that no memory can have") from None
    except (ValueError, TypeError, KeyError, RecursionError, InvalidInput):
        raise Damaged(f"{what} in the file cannot be read") from None


def _parsed(given: Mapping[str, object], parsers: Mapping[str, Parser]) -> dict[str, Any]:
    return {name: parse(given[name]) for name, parse in parsers.items()}


def _plain(value: object) -> str:
    match value:
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case bytes():
            return base64.b64encode(value).decode()
    return str(value)  # an actor


Parser: TypeAlias = Callable[[Any], object]
"""Function that returns the parsed value of a field, or raises one of the errors that `parsed` knows."""


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError
    value.encode()  # raises for lone surrogates
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < HIGHEST_COUNTER:
        raise TypeError
    return value


def _time(value: Any) -> datetime:
    at = datetime.fromisoformat(_text(value)).astimezone(UTC)
    if not 0 <= to_us(at) < HIGHEST_COUNTER:
        raise ValueError
    return at


def _path(value: Any) -> str:
    path = MemoryPath.parse(_text(value)) if value else None  # the path of a redacted version is empty
    if path is not None and (path.is_root or path.text != value):
        raise InvalidInput("the path is not in canonical form")
    return str(value)


def _matching(pattern: str) -> Parser:
    def parse(value: Any) -> str:
        if not re.fullmatch(pattern, _text(value)):
            raise ValueError
        return str(value)

    return parse


_ID = _matching(r"[A-Za-z0-9_-]{1,128}")
_NAME = _matching(r"[ -~]{1,200}")
_HASH = _matching(r"[0-9a-f]{64}|")
_BY_TYPE: Mapping[str, Parser] = {
    "str": _text,
    "int": _number,
    "bytes": lambda value: base64.b64decode(_text(value), validate=True),
    "datetime": _time,
    "Actor": lambda value: Actor.parse(_text(value)),
    "Operation": _matching("|".join(get_args(Operation))),
}
_BY_NAME: Mapping[type, Mapping[str, Parser]] = {
    Header: {
        "id": _matching(r"memstore_[A-Za-z0-9_-]{1,119}"),
        "key": lambda value: plain_name("a store key", _text(value)),
        "name": lambda value: plain_name("a store name", _text(value)),
        "workspace_id": lambda value: plain_name("a workspace id", _text(value)),
    },
    Version: {"id": _ID, "memory_id": _ID, "path": _path, "sha256": _HASH},
    Record: {"kind": _NAME, "key": _NAME},
}


def _optional(parse: Parser) -> Parser:
    return lambda value: None if value is None else parse(value)


def _parsers(kind: type) -> Mapping[str, Parser]:
    """Return a parser for each field of a dataclass."""
    found = {}
    for each in fields(kind):
        base, _, rest = str(each.type).partition(" | ")
        parse = _BY_NAME[kind].get(each.name, _BY_TYPE[base])
        found[each.name] = _optional(parse) if rest else parse
    return found


_PARSERS: Mapping[type, Mapping[str, Parser]] = {kind: _parsers(kind) for kind in _BY_NAME}
_TEXT: Mapping[str, Parser] = {"text": _optional(_text), "data": _optional(_BY_TYPE["bytes"])}
