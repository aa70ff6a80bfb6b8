"""The settings of a memory store: limits and guards. Kept with the store, they hold for every process that opens it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Literal, TypedDict, cast

from retentive.errors import InvalidInput, UnknownSchema
from retentive.values.patterns import check_actor_pattern, check_path_pattern

SENSITIVE_MODES = ("off", "redact", "reject")
MAX_SETTINGS_BYTES = 64 * 1024
_MAX_NUMBER = 2**53


def _number(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
        raise InvalidInput(f"{name} must be a whole number from 0 (0 = no limit) to {_MAX_NUMBER}")
    return value


def _flag(name: str, value: object) -> bool:
    if type(value) is not bool:
        raise InvalidInput(f"{name} must be true or false")
    return value


def _mode(name: str, value: object) -> str:
    if value not in SENSITIVE_MODES:
        raise InvalidInput(f"{name} must be one of {', '.join(SENSITIVE_MODES)}")
    return str(value)


def _names(name: str, value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise InvalidInput(f"{name} must be a list of names, or nothing for the usual ones")
    return tuple(value)


def _path_patterns(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(f"{name} must be a list of path patterns such as /memories/notes/**")
    return tuple(_pattern(name, check_path_pattern, each) for each in value)


def _pattern(name: str, check: Callable[[object], str], value: object) -> str:
    try:
        return check(value)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from None


def _patterns_by_actor(name: str, value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f'{name} must name path patterns by actor: {{"session:*": ["/memories/notes/**"]}}')
    by_actor = ((_pattern(name, check_actor_pattern, actor), paths) for actor, paths in value.items())
    return {actor: _path_patterns(f"{name} of {actor}", paths) for actor, paths in by_actor}


def _days_by_pattern(name: str, value: object) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f'{name} must name days by path pattern: {{"/memories/scratch/**": 7}}')
    by_pattern = ((_pattern(name, check_path_pattern, pattern), days) for pattern, days in value.items())
    return {pattern: _number(f"{name} of {pattern}", days) for pattern, days in by_pattern}


def _actor_patterns(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(f"{name} must be a list of actor patterns such as session:*")
    return tuple(_pattern(name, check_actor_pattern, each) for each in value)


def _setting(default: Any, check: Callable[[str, object], object], text: str) -> Any:
    made = {"check": check, "text": text}
    return field(default_factory=dict, metadata=made) if default == {} else field(default=default, metadata=made)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, checked. Raises `InvalidInput`, saying which is wrong and what would be right."""

    view_chars: int = _setting(16_000, _number, "characters of a memory's text in one view; 0 = all")
    list_rows: int = _setting(1_000, _number, "rows of a directory's view; 0 = all")
    create_overwrites: bool = _setting(False, _flag, "create replaces a memory that is there")
    max_memory_bytes: int = _setting(102_400, _number, "bytes of one memory; 0 = no limit")
    max_memories: int = _setting(10_000, _number, "memories of the store; 0 = no limit")
    max_store_bytes: int = _setting(268_435_456, _number, "bytes of all memories of the store; 0 = no limit")
    sensitive: str = _setting("redact", _mode, "what happens to sensitive values in a text: off, redact or reject")
    sensitive_kinds: tuple[str, ...] | None = _setting(None, _names, "the kinds to look for; null = the usual ones")
    expire_after_days: int = _setting(0, _number, "days after which a memory nobody viewed or changed goes; 0 = never")
    expire_paths: Mapping[str, int] = _setting(
        {}, _days_by_pattern, "the same by pattern of paths, in place of expire_after_days; of several the longest"
    )
    keep_versions_days: int = _setting(30, _number, "days a version is kept after it was replaced; 0 = for ever")
    keep_versions: int = _setting(10, _number, "newest versions of a memory that are kept whatever their age")
    read_only: bool = _setting(False, _flag, "nothing in the store may be changed")
    read_only_paths: tuple[str, ...] = _setting((), _path_patterns, "patterns of paths that may not be changed")
    allow_write: Mapping[str, tuple[str, ...]] = _setting(
        {}, _patterns_by_actor, "by actor, the patterns of the only paths it may change; others may change all"
    )
    review: tuple[str, ...] = _setting((), _actor_patterns, "patterns of actors whose changes await review by a person")
    max_proposals: int = _setting(1_000, _number, "changes that may await review; 0 = no limit")
    audit: bool = _setting(False, _flag, "every command is written down: who, when, what came of it; no contents")

    def __post_init__(self) -> None:
        for spec in fields(self):
            checked = spec.metadata["check"](spec.name, getattr(self, spec.name))
            object.__setattr__(self, spec.name, checked)

    def changed(self, changes: Mapping[str, object]) -> Settings:
        """These settings with some others. Raises `InvalidInput`."""
        check_names(changes)
        return replace(self, **cast("dict[str, Any]", changes))

    def to_text(self) -> str | None:
        """What differs from the defaults, as JSON; None if nothing does. Raises `InvalidInput` if it is too long."""
        usual, own = asdict(DEFAULTS), asdict(self)
        text = json.dumps({name: value for name, value in own.items() if value != usual[name]}, sort_keys=True)
        if len(text.encode()) > MAX_SETTINGS_BYTES:
            raise InvalidInput(f"the settings are longer than {MAX_SETTINGS_BYTES} bytes")
        return None if text == "{}" else text


class Pins(TypedDict, total=False):
    """Settings as arguments of a function; the names of `Settings`."""

    view_chars: int
    list_rows: int
    create_overwrites: bool
    max_memory_bytes: int
    max_memories: int
    max_store_bytes: int
    sensitive: Literal["off", "redact", "reject"]
    sensitive_kinds: Sequence[str] | None
    expire_after_days: int
    expire_paths: Mapping[str, int]
    keep_versions_days: int
    keep_versions: int
    read_only: bool
    read_only_paths: Sequence[str]
    allow_write: Mapping[str, Sequence[str]]
    review: Sequence[str]
    max_proposals: int
    audit: bool


def check_names(changes: object) -> None:
    """Raise `InvalidInput` for what does not give settings by their names."""
    if not isinstance(changes, Mapping):
        raise InvalidInput('settings are given by their names: {"max_memories": 500}')
    unknown = changes.keys() - NAMES
    if unknown:
        raise InvalidInput(f"unknown settings {sorted(map(str, unknown))}; known are {', '.join(NAMES)}")


NAMES = tuple(spec.name for spec in fields(Settings))
DEFAULTS = Settings()


@lru_cache(maxsize=256)
def from_text(text: str | None) -> Settings:
    """The settings a store was given. Raises `UnknownSchema` for one that this retentive does not know.

    It may be a guard, and a guard that is not known is not left out.
    """
    if text is None:
        return DEFAULTS
    try:
        return DEFAULTS.changed(json.loads(text))
    except (InvalidInput, ValueError, RecursionError):
        raise UnknownSchema("the store has settings of a newer retentive: upgrade it to open the store") from None


def describe() -> list[tuple[str, str, str]]:
    """Name, default as JSON, and meaning of every setting, for reference pages."""
    usual = asdict(DEFAULTS)
    return [(spec.name, json.dumps(usual[spec.name]), spec.metadata["text"]) for spec in fields(Settings)]
