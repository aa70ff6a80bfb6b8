"""Memory stores: what a backend records of one, and its properties (name, description, metadata, times) as one text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

from retentive.errors import Damaged, InvalidInput
from retentive.values.records import DEFAULT_WORKSPACE, HIGHEST_COUNTER, time_in_id, to_datetime, to_us
from retentive.values.text import plain_name

MAX_DESCRIPTION_CHARS, MAX_METADATA = 1_024, 16
MAX_NAME_CHARS, MAX_VALUE_CHARS = 64, 512  # of one entry of the metadata
_TIMES = ("updated_at", "archived_at")


@dataclass(frozen=True, slots=True)
class Properties:
    """Properties of a memory store. If `name` is None, the store has the name that it got at its creation."""

    name: str | None = None
    description: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    updated_at: datetime | None = None
    archived_at: datetime | None = None

    def to_text(self) -> str:
        """Return the properties as JSON. Empty properties are left out."""
        times = {name: None if (at := getattr(self, name)) is None else to_us(at) for name in _TIMES}
        given = {"name": self.name, "description": self.description, "metadata": dict(self.metadata), **times}
        return json.dumps({name: value for name, value in given.items() if value}, separators=(",", ":"))

    def changed(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> Properties:
        """Return a copy with some properties replaced. An argument of None keeps the property.

        `metadata` is merged into the current metadata. An entry with the value None is removed. Raises `InvalidInput`
        if a new value is invalid or too long.
        """
        if description is not None and (not _is_storable(description) or len(description) > MAX_DESCRIPTION_CHARS):
            limit = f"at most {MAX_DESCRIPTION_CHARS:,} characters without NUL"
            raise InvalidInput(f"a description must be a string of {limit}")
        merged = {**self.metadata, **(metadata or {})}
        kept = {key: value for key, value in merged.items() if value is not None}
        return replace(
            self,
            name=self.name if name is None else plain_name("a store name", name),
            description=self.description if description is None else description,
            metadata=_metadata(kept) if metadata else self.metadata,
        )


@lru_cache(maxsize=1_000)
def properties_of(text: str | None, *, is_encrypted: bool = False) -> Properties:
    """Parse the stored properties of a memory store.

    Return empty properties if nothing is stored or if the text is still encrypted. Raises `Damaged`.
    """
    if text is None or (is_encrypted and not text.startswith("{")):
        return Properties()
    damaged = Damaged("the properties of the memory store cannot be read")
    try:
        given = json.loads(text)
        name, description, metadata = given.get("name"), given.get("description", ""), given.get("metadata", {})
        times = [None if (at := given.get(each)) is None else to_datetime(at) for each in _TIMES]
        texts = [name or "", description, *metadata, *metadata.values()]
    except (ValueError, TypeError, AttributeError, RecursionError, Damaged):
        raise damaged from None
    if not all(isinstance(each, str) for each in texts):
        raise damaged
    return Properties(name, description, metadata, *times)


@dataclass(frozen=True, slots=True, repr=False)
class StoreInfo:
    """Description of a memory store, as the backend records it. `seal` contains the data of the encryption layer.

    `properties` is JSON that the backend does not interpret. `description`, `metadata`, `updated_at` and `archived_at`
    are parsed from it. In an encrypted store this JSON is encrypted: without the key, the store has no name and no
    description. An erased store has only its id and `erased_at`. In a listing, `damage` says why the row of a damaged
    store cannot be read; the other fields may then be empty.
    """

    id: str
    key: str | None
    name: str
    created_at: datetime
    memories: int
    size_bytes: int
    seal: str | None = None
    erased_at: datetime | None = None
    workspace_id: str = DEFAULT_WORKSPACE
    properties: str | None = None
    damage: str | None = None

    @property
    def description(self) -> str:
        """Purpose of the store; empty by default."""
        return self.described.description

    @property
    def metadata(self) -> Mapping[str, str]:
        """Names and values that the application stored with the store."""
        return self.described.metadata

    @property
    def updated_at(self) -> datetime:
        """Time of the newest change to the name, the description or the metadata. Changes to memories do not count."""
        return self.described.updated_at or self.created_at

    @property
    def archived_at(self) -> datetime | None:
        """Time at which the store was archived; None if it is not archived."""
        return self.described.archived_at

    @property
    def described(self) -> Properties:
        """Parsed `properties`. Raises `Damaged` if they are malformed."""
        return properties_of(self.properties, is_encrypted=self.seal is not None)

    def __repr__(self) -> str:
        size = f"{self.memories} memories, {self.size_bytes} bytes" if self.erased_at is None else "erased"
        return f"<StoreInfo {self.id} key={self.key!r}, {size}>"


def named(info: StoreInfo) -> StoreInfo:
    """Return `info` with the name from the properties. If they contain no name, return `info` unchanged."""
    name = info.described.name
    return info if name is None else replace(info, name=name)


def listed(info: StoreInfo) -> StoreInfo:
    """Return `info` as `named` does. If its properties cannot be read, return it without them, as a damaged store."""
    try:
        return named(info)
    except Damaged as error:
        return replace(info, properties=None, damage=str(error))


def damaged_store(store_id: str, error: Damaged) -> StoreInfo:
    """Return the entry of a listing for a memory store whose row cannot be read."""
    at = time_in_id(store_id) or 0
    return StoreInfo(store_id, None, "", to_datetime(at if at < HIGHEST_COUNTER else 0), 0, 0, damage=str(error))


def _metadata(given: Mapping[str, object]) -> dict[str, str]:
    for name, value in given.items():
        if not _is_storable(name) or not 1 <= len(name) <= MAX_NAME_CHARS:
            raise InvalidInput(f"a name in the metadata must have 1 to {MAX_NAME_CHARS} characters")
        if not _is_storable(value) or len(str(value)) > MAX_VALUE_CHARS:
            raise InvalidInput(f"a value in the metadata must be a string of at most {MAX_VALUE_CHARS} characters")
    if len(given) > MAX_METADATA:
        raise InvalidInput(f"the metadata must have at most {MAX_METADATA} entries")
    return {name: str(value) for name, value in given.items()}


def _is_storable(text: object) -> bool:
    return isinstance(text, str) and "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
