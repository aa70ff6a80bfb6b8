"""JSON lines of export files: headers, memories, versions and records. The parsers check every field."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias, get_args

from retentive.errors import Damaged, InvalidInput, Refused, RetentiveError, UnknownSchema
from retentive.storage.contract import DEFAULT_WORKSPACE, Actor, Memory, Operation, Version, plain_name
from retentive.transfer.contents import Record
from retentive.values.paths import MemoryPath

FORMAT = 1
_INVALID = (ValueError, TypeError, KeyError, RecursionError, RetentiveError)
Parser: TypeAlias = Callable[[object], object]
"""Function that returns the parsed value of a field, or raises one of the errors in `_INVALID`."""


@dataclass(frozen=True, slots=True)
class Header:
    """Description of a memory store, at the start of its section.

    `settings`, `properties` and `seal` have the form in which the backend stores them.
    """

    id: str
    key: str | None
    name: str
    created_at: datetime
    seal: str | None
    settings: str | None
    revision: int
    memories: int
    size_bytes: int
    versions: int
    workspace_id: str = DEFAULT_WORKSPACE
    properties: str | None = None


def line(given: Mapping[str, object]) -> str:
    """Return a value as a line of JSON."""
    return json.dumps(given, separators=(",", ":"), default=_plain) + "\n"


def header_line(header: Header, about: Mapping[str, object]) -> str:
    """Return a header as a line. The line begins with `about`, the description of the file."""
    return line({**about, **{name: getattr(header, name) for name in _HEADER}})


def value_line(value: Memory | Version, text_of: str | None) -> str:
    """Return a memory or version as a line.

    Its text is stored under `text_of`, which is the id of a version.
    """
    names = _VERSION if isinstance(value, Version) else _MEMORY
    return line({name: getattr(value, name, text_of) for name in names})


def record_line(record: Record) -> str:
    """Return a record or side record as a line."""
    return line(dict(zip(_RECORD, record, strict=True)))


def _plain(value: object) -> str:
    match value:
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case bytes():
            return base64.b64encode(value).decode()
    return str(value)  # an actor


def check_format(text: bytes) -> None:
    """Raise `UnknownSchema` if the description of a file has a newer format, and `Damaged` if it cannot be parsed."""
    _parsed(text, {"format": _format}, "the description of the file")


def parse_header(text: bytes) -> Header:
    """Return the header in a line. Raises `Damaged` or `UnknownSchema`."""
    given = _parsed(text, {"format": _format, **_HEADER}, "the description of a memory store")
    return Header(**{name: given[name] for name in _HEADER})


def parse_memory(text: bytes) -> tuple[Memory, str | None]:
    """Return the memory in a line, and the version id under which its text is stored. Raises `Damaged`."""
    given = _parsed(text, _MEMORY, "a memory")
    text_of = given.pop("text")
    return Memory(**given), text_of


def parse_version(text: bytes) -> tuple[Version, str | None]:
    """Return the version in a line, and the version id under which its text is stored. Raises `Damaged`."""
    given = _parsed(text, _VERSION, "a version")
    text_of = given.pop("text")
    if not given["path"] and given["redacted_at"] is None:
        raise Damaged(f"the version {given['id']} in the file has no path")
    return Version(**given), text_of


def parse_record(text: bytes) -> Record:
    """Return the record in a line. Raises `Damaged`."""
    given = _parsed(text, _RECORD, "a record")
    return given["kind"], given["key"], given["value"]


def _parsed(text: bytes, fields: Mapping[str, Parser], what: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
        if not isinstance(given, dict):
            raise TypeError
        return {name: parse(given[name]) for name, parse in fields.items()}
    except UnknownSchema:
        raise
    except Refused:
        raise Damaged(f"{what} in the file has a path that no memory can have") from None
    except _INVALID:
        raise Damaged(f"{what} in the file cannot be read") from None


def _format(value: object) -> int:
    number = _number(value)
    if number > FORMAT:
        known = f"this version of retentive supports only format {FORMAT}"
        raise UnknownSchema(f"the file has format {number}, but {known}; upgrade retentive")
    if number != FORMAT:
        raise ValueError
    return number


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError
    value.encode()  # raises for lone surrogates
    return value


def _matching(pattern: str) -> Parser:
    def parse(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise TypeError
        return value

    return parse


def _optional(parse: Parser) -> Parser:
    return lambda value: None if value is None else parse(value)


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise TypeError
    return value


def _path(value: object) -> str:
    path = MemoryPath.parse(_text(value))
    if path.is_root or path.text != value:
        raise InvalidInput("the path is not in canonical form")
    return path.text


def _actor(value: object) -> Actor:
    actor = Actor.parse(_text(value))
    if str(actor) != value:
        raise TypeError
    return actor


def _time(value: object) -> datetime:
    at = datetime.fromisoformat(_text(value)).astimezone(UTC)
    if at.year < 1970 or _plain(at) != value:
        raise ValueError
    return at


_id = _matching(r"[A-Za-z0-9_-]{1,128}")
_hash = _matching(r"[0-9a-f]{64}|")
_name = _matching(r"[ -~]{1,200}")
_HEADER: Mapping[str, Parser] = {
    "id": _id,
    "key": _optional(lambda value: plain_name("a store key", _text(value))),
    "name": lambda value: plain_name("a store name", _text(value)),
    "created_at": _time,
    "seal": _optional(_text),
    "settings": _optional(_text),
    "revision": _number,
    "memories": _number,
    "size_bytes": _number,
    "versions": _number,
    "workspace_id": lambda value: plain_name("a workspace id", _text(value)),
    "properties": _optional(_text),
}
_MEMORY: Mapping[str, Parser] = {
    "id": _id,
    "path": _path,
    "version_id": _id,
    "created_at": _time,
    "updated_at": _time,
    "size_bytes": _number,
    "sha256": _hash,
    "text": _optional(_id),
}
_VERSION: Mapping[str, Parser] = {
    "id": _id,
    "memory_id": _id,
    "operation": _matching("|".join(get_args(Operation))),
    "path": lambda value: value if value == "" else _path(value),  # the path of a redacted version is empty
    "size_bytes": _optional(_number),
    "sha256": _optional(_hash),
    "actor": _optional(_actor),
    "created_at": _time,
    "revision": _number,
    "seal": _optional(lambda value: base64.b64decode(_text(value), validate=True)),
    "redacted_at": _optional(_time),
    "redacted_by": _optional(_actor),
    "provenance_text": _optional(_text),
    "text": _optional(_id),
}
_RECORD: Mapping[str, Parser] = {"kind": _name, "key": _name, "value": _text}
