"""JSON lines of export files: memories, versions and records, written and parsed with every field checked."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from retentive.errors import Damaged, InvalidInput, RetentiveError, UnknownSchema
from retentive.storage.contract import Actor, Memory, Operation, Version, plain_name
from retentive.values.paths import MemoryPath

T = TypeVar("T")
FORMAT = 1
ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_HASH = re.compile(r"[0-9a-f]{64}|")
_OPERATIONS = ("created", "modified", "deleted")


@dataclass(frozen=True, slots=True)
class Header:
    """Description of a memory store at the start of its section. `settings` and `seal` are as stored."""

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

    def to_json(self, about: Mapping[str, object]) -> str:
        """The JSON line, with the description of the file in front."""
        given = {name: getattr(self, name) for name in self.__slots__}
        return _line({**about, **given, "created_at": time_text(self.created_at)})

    @classmethod
    def parse(cls, text: bytes) -> Header:
        """The header in a JSON line. Raises `Damaged`, `UnknownSchema`."""

        def parsed(given: dict[str, Any]) -> Header:
            check_format(given)
            key = given["key"]
            return cls(
                _id(given["id"]),
                None if key is None else plain_name("a store key", key),
                plain_name("a store name", given["name"]),
                _time(given["created_at"]),
                _text_or_none(given["seal"]),
                _text_or_none(given["settings"]),
                _number(given["revision"]),
                _number(given["memories"]),
                _number(given["size_bytes"]),
                _number(given["versions"]),
            )

        return _parsed(text, parsed, "the description of a memory store")


def memory_line(memory: Memory, text_of: str | None) -> str:
    """The line of a present memory. `text_of` is the version whose entry holds its text."""
    given = {
        "id": memory.id,
        "path": memory.path,
        "version_id": memory.version_id,
        "created_at": time_text(memory.created_at),
        "updated_at": time_text(memory.updated_at),
        "size_bytes": memory.size_bytes,
        "sha256": memory.sha256,
        "text": text_of,
    }
    return _line(given)


def parse_memory(line: bytes) -> tuple[Memory, str | None]:
    """Parses a line of `memory_line`. Raises `Damaged`."""

    def parsed(given: dict[str, Any]) -> tuple[Memory, str | None]:
        memory = Memory(
            _id(given["id"]),
            _path(given["path"]),
            _number(given["size_bytes"]),
            _hash(given["sha256"]),
            _id(given["version_id"]),
            _time(given["created_at"]),
            _time(given["updated_at"]),
        )
        return memory, None if given["text"] is None else _id(given["text"])

    return _parsed(line, parsed, "a memory")


def version_line(version: Version, text_of: str | None) -> str:
    """The line of a version. `text_of` is the version whose entry holds its text: itself or an earlier one."""
    given = {
        "id": version.id,
        "memory_id": version.memory_id,
        "operation": version.operation,
        "path": version.path,
        "size_bytes": version.size_bytes,
        "sha256": version.sha256,
        "actor": None if version.actor is None else str(version.actor),
        "created_at": time_text(version.created_at),
        "revision": version.revision,
        "seal": None if version.seal is None else base64.b64encode(version.seal).decode(),
        "redacted_at": None if version.redacted_at is None else time_text(version.redacted_at),
        "redacted_by": None if version.redacted_by is None else str(version.redacted_by),
        "text": text_of,
    }
    return _line(given)


def parse_version(line: bytes) -> tuple[Version, str | None]:
    """Parses a line of `version_line`. Raises `Damaged`."""

    def parsed(given: dict[str, Any]) -> tuple[Version, str | None]:
        redacted = given["redacted_at"]
        seal = given["seal"]
        version = Version(
            _id(given["id"]),
            _id(given["memory_id"]),
            _operation(given["operation"]),
            "" if redacted is not None and given["path"] == "" else _path(given["path"]),
            None if given["size_bytes"] is None else _number(given["size_bytes"]),
            None if given["sha256"] is None else _hash(given["sha256"]),
            _actor(given["actor"]),
            _time(given["created_at"]),
            _number(given["revision"]),
            None if seal is None else base64.b64decode(seal, validate=True),
            None if redacted is None else _time(redacted),
            _actor(given["redacted_by"]),
        )
        return version, None if given["text"] is None else _id(given["text"])

    return _parsed(line, parsed, "a version")


def record_line(kind: str, key: str, value: str) -> str:
    """The line of a record or side record."""
    return _line({"kind": kind, "key": key, "value": value})


def parse_record(line: bytes) -> tuple[str, str, str]:
    """Kind, key and value in a line of `record_line`. Raises `Damaged`."""
    return _parsed(line, lambda given: (_name(given["kind"]), _name(given["key"]), _text(given["value"])), "a record")


def time_text(at: datetime) -> str:
    """A UTC time with microseconds."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def check_format(given: dict[str, Any]) -> None:
    """Raise `UnknownSchema` for a file of a newer format."""
    if _number(given["format"]) > FORMAT:
        raise UnknownSchema(f"the file has format {given['format']}; this version of retentive reads format {FORMAT}")
    if given["format"] != FORMAT:
        raise ValueError


def parse_json(text: bytes, what: str) -> dict[str, Any]:
    """A JSON object. Raises `Damaged`."""
    return _parsed(text, lambda given: given, what)


def _line(given: Mapping[str, object]) -> str:
    return json.dumps(given, separators=(",", ":")) + "\n"


def _parsed(line: bytes, parse: Callable[[dict[str, Any]], T], what: str) -> T:
    try:
        return parse(_object(json.loads(line)))
    except (UnknownSchema, Damaged):
        raise
    except (ValueError, TypeError, KeyError, RecursionError, RetentiveError):
        raise Damaged(f"{what} in the file cannot be read") from None


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError
    value.encode()  # raises for lone surrogates
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _id(value: object) -> str:
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise TypeError
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 200 or not (value.isascii() and value.isprintable()):
        raise TypeError
    return value


def _hash(value: object) -> str:
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise TypeError
    return value


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise TypeError
    return value


def _operation(value: object) -> Operation:
    if value not in _OPERATIONS:
        raise TypeError
    return cast("Operation", value)


def _path(value: object) -> str:
    path = MemoryPath.parse(_text(value))
    if path.is_root or path.text != value:
        raise InvalidInput("not canonical")
    return path.text


def _actor(value: object) -> Actor | None:
    if value is None:
        return None
    actor = Actor.parse(_text(value))
    if str(actor) != value:
        raise TypeError
    return actor


def _time(value: object) -> datetime:
    at = datetime.fromisoformat(_text(value)).astimezone(UTC)
    if at.year < 1970 or time_text(at) != value:
        raise ValueError
    return at
