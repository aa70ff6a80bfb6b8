"""Base classes and field types of the models of the HTTP interface.

The server reads requests and writes answers with these models, the client reads answers with them, and the OpenAPI
document is made from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from inspect import signature
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypeAliasType

from retentive.errors import InvalidInput, InvalidPath, Refused, RetentiveError
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.patterns import check_actor_pattern, check_name_pattern, check_path_pattern
from retentive.values.records import Actor, ActorKind
from retentive.values.replies import REPLIES
from retentive.values.text import plain_name

T = TypeVar("T")
VERSION_ID = re.compile(r"memver_[0-9a-f]{32}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


class Fields(BaseModel):
    """Fields of a request: its JSON body, or the query of its URL. Other fields are refused.

    In a query, fields are texts, so integers need `FROM_TEXT` and booleans `QueryFlag`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_default=True)

    @classmethod
    def read(cls, given: Mapping[str, object]) -> Self:
        """Parse the fields of a request. Raises `InvalidInput` if a field is unknown, missing or invalid.

        A field that is null counts as absent.
        """
        known = {field.alias or name for name, field in cls.model_fields.items()}
        given = {name: value for name, value in given.items() if value is not None or name not in known}
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise _refusal(error) from None


class Answer(BaseModel):
    """JSON object in an answer. A client ignores fields that it does not know."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={"additionalProperties": False},
        json_schema_serialization_defaults_required=True,
    )


class ObjectOf(Answer, Generic[T]):
    """JSON object that shows a value of the library: a dataclass or a named tuple.

    A field shows the attribute of the same name, or the one in `attributes`. Paths, actors and times are those of the
    library; only JSON has them in the form of the API.
    """

    attributes: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def of(cls, given: T, **more: Any) -> Self:
        """Return the object of a value. `more` has fields that are not those of the value."""
        return cls.model_validate({**cls._attributes(given), **more})

    @classmethod
    def _attributes(cls, given: object) -> dict[str, Any]:
        names = {name: cls.attributes.get(name, name) for name in cls.model_fields if name != "type"}
        return {name: getattr(given, own) for name, own in names.items() if hasattr(given, own)}

    @model_validator(mode="before")
    @classmethod
    def _shown(cls, given: Any) -> Any:
        return given if isinstance(given, dict | cls) else cls._attributes(given)

    def value(self, **more: Any) -> T:
        """Return the value. `more` has fields of the value that the object does not show."""
        kind, names = _names(type(self))
        found = {name: _value(getattr(self, field)) for name, field in names.items() if name not in more}
        result: T = kind(**found, **more)
        return result


@cache
def _names(model: type[ObjectOf[Any]]) -> tuple[Any, dict[str, str]]:
    """Return the class of the value that a model shows, and the field of the model for each field of the value."""
    bases = (each for each in model.__mro__ if issubclass(each, Answer))
    kind = next(filter(None, (each.__pydantic_generic_metadata__["args"] for each in bases)))[0]
    own = {attribute: name for name, attribute in model.attributes.items()}
    names = {name: own.get(name, name) for name in signature(kind).parameters}
    return kind, {name: field for name, field in names.items() if field in model.model_fields}


def _value(given: object) -> object:
    if isinstance(given, ObjectOf):
        return given.value()
    return tuple(map(_value, given)) if isinstance(given, list) else given


class _Page(Answer, Generic[T]):
    data: list[T]

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Return the name of the schema, such as `StorePage`."""
        return f"{getattr(params[0], '__name__', '').removesuffix('Object')}Page"


class AnswerPage(_Page[T], Generic[T]):
    """Page of a list. `next_page` is the cursor of the next page, null on the last page."""

    next_page: str | None = None


class IdPage(_Page[T], Generic[T]):
    """Page of a list of the workspace. The ids of its ends are the cursors of the pages beside it."""

    has_more: bool
    first_id: str | None
    last_id: str | None


class DeletedObject(Answer):
    """Answer to a deletion."""

    id: str
    type: Literal["memory_deleted", "memory_store_deleted", "webhook_endpoint_deleted", "group_deleted"]


def _refusal(error: ValidationError) -> InvalidInput:
    found = error.errors(include_url=False, include_input=False)
    first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])
    kind, field = first["type"], ".".join(map(str, first["loc"]))[:80]
    return (InvalidPath if kind == InvalidPath.code else InvalidInput)(f"{field}: {first['msg']}")


def _as_field(function: Callable[[Any], object], keeps: bool, value: Any) -> Any:
    try:
        found = function(value)
    except RetentiveError as error:
        raise PydanticCustomError(error.code, "{text}", {"text": str(error)}) from None
    return value if keeps else found


def converted(function: Callable[[Any], object]) -> BeforeValidator:
    """Return a validator that converts a value before pydantic checks its type. `function` may raise our errors."""
    return BeforeValidator(partial(_as_field, function, False))


def rule(check: Callable[[Any], object], *, keeps: bool = True) -> AfterValidator:
    """Return a validator that checks a value, and keeps it or takes what `check` returns. It may raise our errors."""
    return AfterValidator(partial(_as_field, check, keeps))


def api_path(text: str) -> str:
    """Return the path that the API shows: `/x` for the memory `/memories/x`, and `/` for the root."""
    return text[len(ROOT) :] or "/"


def tool_path(path: str) -> str:
    """Convert a path of the API to a path below `/memories`: `/x` to `/memories/x`, and `/` to `/memories`."""
    return ROOT if path == "/" else ROOT + path


def _parsed(path: str) -> str:
    if path == "/":
        return ROOT
    if not path.startswith("/"):
        raise InvalidPath("must start with /")
    try:
        parsed = MemoryPath.parse(ROOT + path).text
    except Refused as refusal:
        raise InvalidPath(REPLIES.error(refusal.key, refusal.values).text.removeprefix("Error: ")) from None
    if parsed != ROOT + path:
        raise InvalidPath("must be normalized (Unicode NFC), without empty segments or a trailing /")
    return parsed


def _not_root(path: str) -> None:
    if path == ROOT:
        raise InvalidPath("must name a memory")


def _directory(prefix: str) -> str:
    if not prefix.startswith("/") or not prefix.endswith("/"):
        raise InvalidPath("must begin and end with /")
    return _parsed(prefix[:-1] or "/")


def _time(text: object) -> datetime:
    if isinstance(text, datetime):
        return text
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        raise InvalidInput("must be a time in RFC 3339 format, such as 2026-05-01T12:00:00Z")
    try:
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.upper())).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput("must be a valid time") from None


def moment(at: object) -> str | datetime:
    """Parse a text that names a moment: a time, the id of a version, or the name of a change.

    Only a time is converted; any other text is returned unchanged. Raises `InvalidInput`.
    """
    if isinstance(at, datetime):
        return at
    if not isinstance(at, str) or len(at) > 200:
        raise InvalidInput("must be a string of at most 200 characters")
    return _time(at) if _TIME.fullmatch(at) else at


def _integer(value: object) -> object:
    is_number = isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII)
    return int(value) if isinstance(value, str) and is_number else value


def _flag(value: object) -> object:
    return value == "true" if value in {"true", "false"} else value


def _from_json(path: Any, info: ValidationInfo) -> Any:
    return tool_path(path) if info.mode == "json" and isinstance(path, str) else path


ShownPath = Annotated[str, BeforeValidator(_from_json), PlainSerializer(api_path, return_type=str)]
"""Path in an answer. Its value is a path below `/memories`."""
AnyPath = Annotated[str, Field(max_length=2_000), rule(_parsed, keeps=False)]
"""Path of a memory, a directory, or `/`, in a request. Its value is a path below `/memories`."""
FilePath = Annotated[AnyPath, rule(_not_root)]
"""Path of a memory in a request. Its value is a path below `/memories`."""
Directory = Annotated[str, Field(max_length=2_000), rule(_directory, keeps=False)]
"""Path of a directory in a request, with a slash at both ends. Its value is a path below `/memories`."""
Moment = Annotated[str | datetime, converted(moment), WithJsonSchema({"type": "string", "maxLength": 200})]
Time = Annotated[datetime, converted(_time)]
"""Time in a request."""
UtcTime = Annotated[datetime, WithJsonSchema({"type": "string", "format": "date-time", "pattern": "Z$"})]
"""Time in an answer."""
Count = Annotated[int, Field(ge=0)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Name = Annotated[str, Field(min_length=1, max_length=255), rule(partial(plain_name, "the value"))]
ActorPattern = Annotated[str, rule(check_actor_pattern)]
NamePattern = Annotated[str, Field(min_length=1), rule(check_name_pattern)]
"""Pattern of sources, sessions, integrations or flags."""
PathPattern = Annotated[str, rule(check_path_pattern, keeps=False)]
"""Pattern of paths, in Unicode NFC."""
FROM_TEXT = BeforeValidator(_integer)
"""Reads an integer in a query."""
QueryFlag = Annotated[bool, BeforeValidator(_flag)]
Shown = Literal["basic", "full"]
Basic = Annotated[Shown, Field(description="`full` includes the content")]
Full = Annotated[Shown, Field(description="`basic` leaves out the content")]
Under = Annotated[Directory, Field(description="Only paths below this directory; it begins and ends with `/`")]
CreatedFrom = Annotated[
    Time | None, Field(alias="created_at[gte]", description="Only objects created at this time or later")
]
CreatedTo = Annotated[
    Time | None, Field(alias="created_at[lte]", description="Only objects created at this time or earlier")
]
Source = Annotated[str | None, Field(max_length=2_000, description="Source of the change, such as `user`")]
Session = Annotated[str | None, Field(max_length=255, description="Session of the change")]
At = Annotated[Moment | None, Field(description="State at this time, or after the change with this name or version id")]


class PageQuery(Fields):
    """Which page of a list to answer."""

    limit: Annotated[int, FROM_TEXT] = Field(default=20, ge=1, le=100, description="Objects in one page")
    page: str | None = Field(default=None, max_length=4_000, description="The `next_page` of the page before")


class Sourced(Fields):
    """Fields that say where a change comes from."""

    source: Source = None
    session: Session = None


ACTORS = {
    "session": ("session_actor", "session_id"),
    "user": ("user_actor", "user_id"),
    "service_account": ("service_account_actor", "service_account_id"),
    "api_key": ("api_actor", "api_key_id"),
}
"""The type and the field of an actor in the API, by its kind."""
PRINCIPALS = ("user", "service_account")
"""Kinds of actors that can own an API key."""
RESERVED_ACCOUNT = "svac_job_"
"""Prefix of the ids of service accounts that are reserved for the jobs of retentive."""
_KINDS = {type_: (kind, field) for kind, (type_, field) in ACTORS.items()}


def _actor_out(actor: Actor | None) -> dict[str, str] | None:
    """Return the JSON object of an actor. A job is shown as a service account, because the SDK refuses other types."""
    if actor is None:
        return None
    if actor.kind == "job":
        return {"type": "service_account_actor", "service_account_id": RESERVED_ACCOUNT + actor.id}
    type_, field = ACTORS[actor.kind]
    return {"type": type_, field: actor.id}


def _actor_in(given: Any) -> Actor | None:
    """Parse an actor. Return None if there is none, or if it has an unknown type or no id."""
    if given is None or isinstance(given, Actor):
        return given
    kind, field = _KINDS.get(given.get("type"), ("", ""))
    return named_actor(kind, str(given[field])) if field in given else None


def named_actor(kind: str, name: str) -> Actor:
    """Return the actor that the API shows with this kind and with `name` as its id."""
    if kind == "service_account" and name.startswith(RESERVED_ACCOUNT):
        kind, name = "job", name.removeprefix(RESERVED_ACCOUNT)
    return Actor(cast("ActorKind", kind), name)


def _actor_schema(type_: str, field: str) -> dict[str, Any]:
    properties = {"type": {"const": type_}, field: {"type": "string"}}
    return {"type": "object", "properties": properties, "required": ["type", field], "additionalProperties": False}


def _principal(given: object) -> object:
    if isinstance(given, dict) and len(given) == 2 and all(isinstance(each, str) for each in given.values()):
        return _actor_in(given)
    return given


ActorObject = TypeAliasType(
    "ActorObject",
    Annotated[
        Actor | None,
        PlainValidator(_actor_in),
        PlainSerializer(_actor_out),
        WithJsonSchema({"oneOf": [*(_actor_schema(*names) for names in ACTORS.values()), {"type": "null"}]}),
    ],
)
"""Actor in an answer, null if it is unknown."""
Principal = Annotated[
    Actor, BeforeValidator(_principal), WithJsonSchema({"oneOf": [_actor_schema(*ACTORS[kind]) for kind in PRINCIPALS]})
]
"""Actor that an API key belongs to, in a request."""
