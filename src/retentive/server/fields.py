"""Fields of requests: their types, their JSON schemas, and functions that read them from a JSON body or a URL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from retentive.errors import InvalidInput
from retentive.server.errors import invalid
from retentive.server.rates import RATE_PATTERN, rate_of
from retentive.storage.contract import plain_name
from retentive.values.patterns import check_actor_pattern, check_name_pattern

MAX_LIMIT = 100
_NOT_TEXT = "must be a string"
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_IGNORED = frozenset({"beta"})
"""Names in a query that are ignored. The SDKs send `?beta=true`."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """Type of a field.

    `read` returns the validated value, or raises `InvalidInput` with a text such as "must be a string". `from_text`
    converts a string from the query of a URL to the JSON value that `read` expects.
    """

    schema: Mapping[str, object]
    read: Callable[[Any], object]
    from_text: Callable[[str], object] = str


@dataclass(frozen=True, slots=True)
class Field:
    """Field in the JSON body of a request, or in the query of its URL."""

    name: str
    kind: FieldType
    text: str
    required: bool = False
    default: object = None
    is_patch: bool = False
    """True if the handler gets the field only when the request contains it.

    The value is None if the request has null.
    """

    @property
    def argument(self) -> str:
        """Name of the handler's argument for the field, such as `created_at_gte` for the field `created_at[gte]`."""
        return self.name.replace("[", "_").replace("]", "")


def required(name: str, kind: FieldType, text: str) -> Field:
    """Return a field that must be present and not null."""
    return Field(name, kind, text, required=True)


def text(max_chars: int | None = None, *, min_chars: int = 0) -> FieldType:
    """Return the type of a string with a minimum and a maximum number of characters."""
    schema: dict[str, object] = {"type": "string"}
    if max_chars is not None:
        schema["maxLength"] = max_chars
    if min_chars:
        schema["minLength"] = min_chars

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise InvalidInput(_NOT_TEXT)
        if len(value) < min_chars:
            raise InvalidInput("must not be empty")
        if max_chars is not None and len(value) > max_chars:
            raise InvalidInput(f"must have at most {max_chars} characters")
        return value

    return FieldType(schema, read)


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(_NOT_TEXT)
    return plain_name("the value", value)


NAME = FieldType({"type": "string", "minLength": 1, "maxLength": 255}, _name)
"""Type of a name: 1 to 255 characters, without control characters."""


def _actor_pattern(value: object) -> str:
    return check_actor_pattern(value)


def _name_pattern(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(_NOT_TEXT)
    check_name_pattern(value)
    return value


ACTOR_PATTERN = FieldType({"type": "string"}, _actor_pattern)


NAME_PATTERN = FieldType({"type": "string", "minLength": 1}, _name_pattern)
"""Type of a pattern for sources, sessions, integrations or flags."""


def _rate(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(_NOT_TEXT)
    rate_of(value)
    return value


RATE = FieldType({"type": "string", "pattern": RATE_PATTERN}, _rate)


def choice(*values: str) -> FieldType:
    """Return the type of a string that must be one of `values`."""

    def read(value: object) -> str:
        if value not in values:
            raise InvalidInput(f"must be one of {', '.join(values)}")
        return str(value)

    return FieldType({"type": "string", "enum": list(values)}, read)


def integer(low: int, high: int) -> FieldType:
    """Return the type of an integer from `low` to `high`."""

    def read(value: object) -> int:
        if type(value) is not int or not low <= value <= high:
            raise InvalidInput(f"must be an integer from {low} to {high}")
        return value

    return FieldType({"type": "integer", "minimum": low, "maximum": high}, read, _integer_in)


def _integer_in(value: str) -> object:
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII) else value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise InvalidInput("must be true or false")
    return value


FLAG = FieldType({"type": "boolean"}, _flag, lambda value: {"true": True, "false": False}.get(value, value))


def _time(value: object) -> datetime:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise InvalidInput("must be a time in RFC 3339 format, such as 2026-05-01T12:00:00Z")
    fraction = re.sub(r"(\.\d{6})\d+", r"\1", value.upper())
    try:
        return datetime.fromisoformat(fraction).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput("must be a valid time") from None


TIME = FieldType({"type": "string", "format": "date-time"}, _time)


def _sha256(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise InvalidInput("must be 64 lowercase hexadecimal characters")
    return value


SHA256 = FieldType({"type": "string", "pattern": "^[0-9a-f]{64}$"}, _sha256)


def _precondition(value: object) -> str:
    if not isinstance(value, dict) or set(value) != {"type", "content_sha256"} or value["type"] != "content_sha256":
        raise InvalidInput('must be {"type": "content_sha256", "content_sha256": ...}')
    return _sha256(value["content_sha256"])


PRECONDITION = FieldType(
    {
        "type": "object",
        "properties": {"type": {"const": "content_sha256"}, "content_sha256": SHA256.schema},
        "required": ["type", "content_sha256"],
        "additionalProperties": False,
    },
    _precondition,
)


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidInput("must be an object")
    return value


OBJECT = FieldType({"type": "object"}, _object)
ANYTHING = FieldType({}, lambda value: value)


def texts(check: Callable[[str], object], schema: Mapping[str, object] | None = None) -> FieldType:
    """Return the type of a list of strings. `check` raises `InvalidInput` if a string is invalid."""

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise InvalidInput("must be a list of strings")
        if len(value) > MAX_LIMIT:
            raise InvalidInput(f"must have at most {MAX_LIMIT} entries")
        for each in value:
            check(each)
        return tuple(value)

    return FieldType({"type": "array", "maxItems": MAX_LIMIT, "items": dict(schema or {"type": "string"})}, read)


def objects(most: int) -> FieldType:
    """Return the type of a list with 1 to `most` objects."""

    def read(value: object) -> list[dict[str, object]]:
        if (
            not isinstance(value, list)
            or not 0 < len(value) <= most
            or not all(isinstance(each, dict) for each in value)
        ):
            raise InvalidInput(f"must be a list of 1 to {most} objects")
        return value

    schema = {"type": "array", "minItems": 1, "maxItems": most, "items": {"type": "object"}}
    return FieldType(schema, read)


def read_query(fields: Sequence[Field], query: bytes) -> dict[str, object]:
    """Parse the query of a URL into the arguments of a handler. Raises `HttpError` 400 for an invalid query."""
    try:
        decoded = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=40,
        )
    except ValueError:
        raise invalid("the query of the URL is malformed") from None
    pairs = [(name, value) for name, value in decoded if name not in _IGNORED]
    given = dict(pairs)
    if len(given) != len(pairs):
        raise invalid("the query of the URL contains the same name twice")
    known = {field.name: field.kind for field in fields}
    return _arguments(fields, {name: known[name].from_text(v) if name in known else v for name, v in given.items()})


def read_fields(fields: Sequence[Field], given: Mapping[str, object]) -> dict[str, object]:
    """Convert `given`, the JSON object in a request body, to the arguments of a handler.

    A field that is null counts as absent. Raises `HttpError` 400 if a field is unknown, missing or invalid.
    """
    return _arguments(fields, given)


def _arguments(fields: Sequence[Field], given: Mapping[str, object]) -> dict[str, object]:
    unknown = sorted(given.keys() - {field.name for field in fields})
    if unknown:
        raise invalid(f"{unknown[0][:80]}: this field is unknown")
    chosen = (field for field in fields if not field.is_patch or field.name in given)
    return {field.argument: _value(field, given.get(field.name)) for field in chosen}


def _value(field: Field, value: object) -> object:
    if value is None:
        if field.required:
            raise invalid(f"{field.name}: this field is required")
        return field.default
    try:
        return field.kind.read(value)
    except InvalidInput as error:
        raise invalid(f"{field.name}: {error}") from None
