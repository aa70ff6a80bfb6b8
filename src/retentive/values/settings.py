"""Settings of a memory store: limits and guards.

Settings are stored with the memory store and apply to every process that opens it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypedDict, cast

from retentive.errors import InvalidInput, UnknownSchema
from retentive.values.patterns import check_actor_pattern, check_path_pattern, check_trust_pattern

SENSITIVE_MODES = ("off", "flag", "redact", "reject")
TRUST_LEVELS = ("trusted", "unconfirmed", "quarantined")
REVIEW_TIERS = ("all", "changes", "none")
_LANGUAGES = """arabic armenian basque catalan czech danish dutch english esperanto estonian finnish french german greek
hindi hungarian indonesian irish italian lithuanian nepali norwegian persian polish portuguese romanian russian serbian
sesotho spanish swedish tamil turkish yiddish"""
SEARCH_LANGUAGES = tuple(_LANGUAGES.split())
_ALLOWANCE = re.compile(r"value:[0-9a-f]{32}:[0-9a-f]{64}|[a-z][a-z0-9_-]{0,39}")
MAX_SETTINGS_BYTES = 64 * 1024
_MAX_NUMBER = 2**53
Checker: TypeAlias = Callable[[str, object], object]
"""Function that takes the name and value of a setting and returns the valid value. It raises `InvalidInput`."""


def _number(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
        raise InvalidInput(f"the setting {name} must be an integer from 0 (no limit) to {_MAX_NUMBER}")
    return value


def _flag(name: str, value: object) -> bool:
    if type(value) is not bool:
        raise InvalidInput(f"the setting {name} must be true or false")
    return value


def _one_of(values: Sequence[str]) -> Checker:
    def checked(name: str, value: object) -> str:
        if value not in values:
            raise InvalidInput(f"the setting {name} must be one of {', '.join(values)}")
        return str(value)

    return checked


def _list_of(check: Callable[[object], str], what: str) -> Checker:
    def checked(name: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)):
            raise InvalidInput(f"the setting {name} must be a list of {what}")
        return tuple(dict.fromkeys(_entry(name, check, each) for each in value))

    return checked


def _map_of(check: Callable[[object], str], check_value: Checker, what: str) -> Checker:
    def checked(name: str, value: object) -> dict[str, object]:
        if not isinstance(value, Mapping):
            raise InvalidInput(f"the setting {name} must map {what}")
        return {_entry(name, check, key): check_value(f"{name} of {key}", each) for key, each in value.items()}

    return checked


def _entry(name: str, check: Callable[[object], str], value: object) -> str:
    try:
        return check(value)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from None


def _tiers(name: str, value: object) -> object:
    """Return the tier of each pattern. A list of patterns gives all of them the first tier."""
    if isinstance(value, (list, tuple)):
        value = {_entry(name, check_actor_pattern, each): REVIEW_TIERS[0] for each in value}
    what = 'actor patterns to tiers, such as {"session:*": "changes"}, or be a list of actor patterns'
    return _map_of(check_actor_pattern, _one_of(REVIEW_TIERS), what)(name, value)


def _kind_change(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput("a kind of sensitive values must be a string")
    return value


def _allowance(value: object) -> str:
    if isinstance(value, str) and value.startswith("/"):
        return check_path_pattern(value)
    if not isinstance(value, str) or not _ALLOWANCE.fullmatch(value):
        raise InvalidInput(
            "every entry must be a kind of sensitive value, a path pattern or a hash from "
            "`retentive admin scan --allow`"
        )
    return value


def _language(value: object) -> str:
    if value not in SEARCH_LANGUAGES:
        raise InvalidInput(f"every language must be one of {', '.join(SEARCH_LANGUAGES)}")
    return str(value)


_path_patterns = _list_of(check_path_pattern, 'path patterns such as ["/memories/notes/**"]')
_actor_patterns = _list_of(check_actor_pattern, 'actor patterns such as ["session:*"]')
_trust_patterns = _list_of(check_trust_pattern, 'patterns such as ["session:s1", "source:web:*"]')
_mode = _one_of(SENSITIVE_MODES)


def _setting(default: Any, check: Checker, text: str) -> Any:
    metadata = {"check": check, "text": text}
    return field(default_factory=lambda: default, metadata=metadata)  # a mapping is mutable, so it cannot be a default


@dataclass(frozen=True, slots=True)
class Settings:
    """Valid settings of a memory store.

    Raises `InvalidInput` for an invalid value. The message names the setting and the expected value.
    """

    view_chars: int = _setting(16_000, _number, "characters of text in one view of a memory; 0 = all")
    list_rows: int = _setting(1_000, _number, "rows in one view of a directory; 0 = all")
    create_overwrites: bool = _setting(False, _flag, "create replaces an existing memory")
    max_memory_bytes: int = _setting(102_400, _number, "maximum bytes of one memory; 0 = no limit")
    max_memories: int = _setting(10_000, _number, "maximum number of memories; 0 = no limit")
    max_store_bytes: int = _setting(268_435_456, _number, "maximum bytes of all memories together; 0 = no limit")
    sensitive: str = _setting("redact", _mode, "treatment of certain sensitive values: off, flag, redact or reject")
    sensitive_likely: str = _setting("flag", _mode, "treatment of likely sensitive values: off, flag, redact or reject")
    sensitive_allow: tuple[str, ...] = _setting(
        (),
        _list_of(_allowance, "kinds, path patterns and hashes of values"),
        "sensitive values to accept: kinds, path patterns, and hashes of values (admin scan --allow)",
    )
    sensitive_kinds: tuple[str, ...] = _setting(
        (),
        _list_of(_kind_change, 'kinds of values to find or, with -, not to find, such as ["email", "-iban"]'),
        "kinds of sensitive values to find besides the default kinds; -KIND: not to find",
    )
    expire_after_days: int = _setting(
        0, _number, "days without a view or change after which a memory is deleted; 0 = never"
    )
    expire_paths: Mapping[str, int] = _setting(
        {},
        _map_of(check_path_pattern, _number, 'path patterns to numbers of days, such as {"/memories/scratch/**": 7}'),
        "expire_after_days by path pattern; if several patterns match, the longest time applies",
    )
    keep_versions_days: int = _setting(365, _number, "days to keep a version after it is replaced; 0 = forever")
    keep_versions: int = _setting(10, _number, "newest versions of each memory to keep regardless of age")
    read_only: bool = _setting(False, _flag, "the whole store is read-only")
    read_only_paths: tuple[str, ...] = _setting((), _path_patterns, "path patterns that are read-only")
    allow_write: Mapping[str, tuple[str, ...]] = _setting(
        {},
        _map_of(
            check_actor_pattern,
            _path_patterns,
            'actor patterns to lists of path patterns, such as {"session:*": ["/memories/notes/**"]}',
        ),
        "path patterns each actor may change; actors not listed may change all paths",
    )
    review: Mapping[str, str] = _setting(
        {}, _tiers, "which changes await review by a person, by actor pattern: all, changes (no additions) or none"
    )
    max_proposals: int = _setting(1_000, _number, "maximum number of changes awaiting review; 0 = no limit")
    max_proposals_each: int = _setting(
        100, _number, "maximum number of changes of one actor awaiting review; 0 = no limit for each actor"
    )
    proposals_expire_days: int = _setting(
        30, _number, "days after which a change that still awaits review is refused; 0 = never"
    )
    trust: Mapping[str, str] = _setting(
        {},
        _map_of(
            check_trust_pattern, _one_of(TRUST_LEVELS), 'patterns to trust levels, such as {"session:*": "unconfirmed"}'
        ),
        "trust level by pattern of actors and source:...: trusted, unconfirmed or quarantined",
    )
    quarantine: tuple[str, ...] = _setting(
        (), _trust_patterns, "patterns of actors and source:...; memories they contributed to are hidden"
    )
    hide_unconfirmed: tuple[str, ...] = _setting(
        (), _actor_patterns, "patterns of actors who do not see the unconfirmed memories of others"
    )
    search_languages: tuple[str, ...] = _setting(
        (),
        _list_of(_language, "languages"),
        "languages whose word endings a search ignores; empty = detected from the memories",
    )
    audit: bool = _setting(False, _flag, "record every command: actor, time and outcome, without contents")

    def __post_init__(self) -> None:
        for spec in fields(self):
            checked = spec.metadata["check"](spec.name, getattr(self, spec.name))
            object.__setattr__(self, spec.name, checked)

    @property
    def expires(self) -> bool:
        """True if any memory may expire."""
        return bool(self.expire_after_days or any(self.expire_paths.values()))

    def changed(self, changes: Mapping[str, object]) -> Settings:
        """Return a copy with the given settings changed. Raises `InvalidInput` for an unknown name or invalid value."""
        check_names(changes)
        return replace(self, **cast("dict[str, Any]", changes))

    def to_text(self) -> str | None:
        """Return a JSON text of all settings with a value other than the default, or None if there are none.

        Raises `InvalidInput` if the JSON is too long.
        """
        defaults, values = asdict(DEFAULTS), asdict(self)
        text = json.dumps({name: value for name, value in values.items() if value != defaults[name]}, sort_keys=True)
        if len(text.encode()) > MAX_SETTINGS_BYTES:
            raise InvalidInput(
                f"the settings are larger than {MAX_SETTINGS_BYTES} bytes; use fewer or shorter patterns"
            )
        return None if text == "{}" else text


class Pins(TypedDict, total=False):
    """Settings as keyword arguments, with the type of each."""

    view_chars: int
    list_rows: int
    create_overwrites: bool
    max_memory_bytes: int
    max_memories: int
    max_store_bytes: int
    sensitive: Literal["off", "flag", "redact", "reject"]
    sensitive_likely: Literal["off", "flag", "redact", "reject"]
    sensitive_allow: Sequence[str]
    sensitive_kinds: Sequence[str]
    expire_after_days: int
    expire_paths: Mapping[str, int]
    keep_versions_days: int
    keep_versions: int
    read_only: bool
    read_only_paths: Sequence[str]
    allow_write: Mapping[str, Sequence[str]]
    review: Mapping[str, Literal["all", "changes", "none"]] | Sequence[str]
    max_proposals: int
    max_proposals_each: int
    proposals_expire_days: int
    trust: Mapping[str, Literal["trusted", "unconfirmed", "quarantined"]]
    quarantine: Sequence[str]
    hide_unconfirmed: Sequence[str]
    search_languages: Sequence[str]
    audit: bool


def check_names(changes: object) -> None:
    """Raise `InvalidInput` unless `changes` maps names of settings to values."""
    if not isinstance(changes, Mapping):
        raise InvalidInput('`settings` must be a mapping from names to values, such as {"max_memories": 500}')
    unknown = changes.keys() - NAMES
    if unknown:
        raise InvalidInput(f"unknown settings {sorted(map(str, unknown))}; the known settings are {', '.join(NAMES)}")


NAMES = tuple(spec.name for spec in fields(Settings))
DEFAULTS = Settings()


@lru_cache(maxsize=256)
def from_text(text: str | None) -> Settings:
    """Parse the stored settings of a store. Raises `UnknownSchema` for an unknown setting or an invalid value.

    An unknown setting must not be ignored, because it may restrict changes.
    """
    if text is None:
        return DEFAULTS
    try:
        return DEFAULTS.changed(json.loads(text))
    except (InvalidInput, ValueError, RecursionError):
        raise UnknownSchema(
            "a newer version of retentive changed the settings of this store; upgrade retentive to open the store"
        ) from None


def describe() -> list[tuple[str, str, str]]:
    """Return the name, the default as JSON, and the meaning of every setting, for reference pages."""
    defaults = asdict(DEFAULTS)
    return [(spec.name, json.dumps(defaults[spec.name]), spec.metadata["text"]) for spec in fields(Settings)]
