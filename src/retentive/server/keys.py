"""API keys: their text, the records that are stored for them, and the authentication of requests with a cache."""

from __future__ import annotations

import hmac
import logging
import secrets
import string
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from retentive.errors import InvalidInput, NotFound, RetentiveError
from retentive.server.kinds import RecordKind
from retentive.server.people import CACHE_S, Groups
from retentive.server.rights import ID_PREFIX, Grant, KeyRecord
from retentive.storage.contract import as_actor
from retentive.store.location_records import LocationRecords, LogEntry, entry_of
from retentive.values.patterns import check_actor_pattern
from retentive.values.text import digest, plain_name
from retentive.wire.base import PRINCIPALS, RESERVED_ACCOUNT
from retentive.wire.stores import Scope, rate_of

DEFAULT_SCOPES: tuple[Scope, ...] = ("read", "write")
DEFAULT_WORKSPACE = "wrkspc_default"
PREFIX = "rtv_"
TOKEN_PREFIX = "oauth_"  # noqa: S105 - no password
"""Prefix of the ids of the records made for OAuth tokens. These records are not stored."""
LOG = logging.getLogger("retentive.server")
_ALPHABET = string.ascii_letters + string.digits
_ID_CHARS, _SECRET_CHARS, _CHECK_CHARS = 12, 43, 6  # 43 random characters out of 62 have 256 bits
_LENGTH = len(PREFIX) + _ID_CHARS + 1 + _SECRET_CHARS + _CHECK_CHARS
_NO_DIGEST = digest("")


class NewKey(NamedTuple):
    """New API key: `record`, which is stored, and `text`, which is shown once and never stored."""

    record: KeyRecord
    text: str


def new_key(name: str, *, now: datetime, expires_at: datetime | None = None, **fields: Any) -> NewKey:
    """Create an API key, without storing it. Raises `InvalidInput` if an argument is invalid.

    `fields` are other fields of the record.
    """
    short = _random(_ID_CHARS)
    text = f"{PREFIX}{short}_{_random(_SECRET_CHARS)}"
    text += _check_sum(text)
    record = KeyRecord(
        id=ID_PREFIX + short,
        name=plain_name("the name of an API key", name),
        digest=digest(text),
        partial_key_hint=f"{PREFIX}{short[:4]}...{text[-4:]}",
        created_at=now.isoformat(),
        expires_at=None if expires_at is None else expires_at.isoformat(),
        **{"workspace_id": DEFAULT_WORKSPACE, "scopes": DEFAULT_SCOPES, **fields},
    )
    if expires_at is not None and expires_at <= now:
        raise InvalidInput("expires_at must be in the future")
    plain_name("a workspace id", record.workspace_id)
    own = Grant(record.stores, record.scopes, record.paths).checked()
    for pattern in record.act_as:
        check_actor_pattern(pattern)
    check_principal(record.principal)
    rate_of(record.rate_limit)
    return NewKey(replace(record, scopes=own.scopes, paths=own.paths), text)


def id_in(text: str) -> str | None:
    """Return the id in the text of a key, or None if the length or the checksum of the text is wrong."""
    body = text[:-_CHECK_CHARS]
    if len(text) != _LENGTH or not text.startswith(PREFIX) or not text.isascii():
        return None
    if not hmac.compare_digest(_check_sum(body), text[-_CHECK_CHARS:]):
        return None
    return ID_PREFIX + text[len(PREFIX) : len(PREFIX) + _ID_CHARS]


def check_principal(principal: str | None) -> None:
    """Raise `InvalidInput` if `principal` is an actor that cannot own an API key, such as a session."""
    actor = as_actor(principal)
    if actor is None:
        return
    if actor.kind not in PRINCIPALS:
        raise InvalidInput(f"the principal of a key must be a user or a service_account, not {actor.kind}")
    if actor.id.startswith(RESERVED_ACCOUNT):
        raise InvalidInput(
            f"ids of service accounts that begin with {RESERVED_ACCOUNT} are reserved for the jobs of the server"
        )


def _random(chars: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(chars))


def _check_sum(text: str) -> str:
    return f"{zlib.crc32(text.encode('ascii')) & 0xFFFFFF:06x}"


KIND = "api_key"
USED = "api_key_used"
USED_EVERY_S = 60.0
_MAX_CACHED = 10_000


class KeyStore:
    """API keys of a location. Threads may share it."""

    def __init__(
        self,
        records: LocationRecords,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records, self._keys = records, RecordKind(records, KIND, KeyRecord)
        self.groups = Groups(records, clock=clock, monotonic=monotonic)
        self._clock = clock
        self._monotonic = monotonic
        self._cached: dict[str, tuple[float, KeyRecord]] = {}
        self._used: dict[str, float] = {}

    def now(self) -> datetime:
        """Return the current time."""
        return datetime.fromtimestamp(self._clock(), UTC)

    def create(self, name: str, *, by: str | None = None, integration: str = "cli", **options: Any) -> NewKey:
        """Create an API key and store its record. `options` are those of `new_key`.

        `by` is the actor to log. Raises `InvalidInput` if an option is invalid.
        """
        made = new_key(name, now=self.now(), **options)
        rights = {each: getattr(made.record, each) for each in ("principal", "scopes", "stores", "paths", "act_as")}
        entry = self._entry("key_created", by, integration, made.record, **rights)
        self._keys.put(_short(made.record.id), made.record, before=None, entry=entry)
        return made

    def first(self) -> NewKey | None:
        """Create an admin key if the location has never had a key, else return None."""
        return None if self._records.list(KIND, limit=1) else self.create("first admin key", scopes=("admin",))

    def get(self, key_id: str, workspace_id: str | None = None) -> KeyRecord:
        """Return the record of a key. Raises `NotFound` if it does not exist or is in another workspace."""
        record = self._keys.get(_short(key_id))
        if record is None or record.id != key_id or workspace_id not in {None, record.workspace_id}:
            raise NotFound("there is no such API key")
        return record

    def all(self, workspace_id: str | None = None) -> list[KeyRecord]:
        """Return the records of all keys, newest first. With `workspace_id`, return only keys of that workspace."""
        chosen = (record for record in self._keys.list() if workspace_id in {None, record.workspace_id})
        return sorted(chosen, key=lambda record: (record.created_at, record.id), reverse=True)

    def last_uses(self) -> dict[str, str]:
        """Return the time of the last use of each API key, by key id.

        Keys that were never used are missing. Times may be a minute too early.
        """
        return {ID_PREFIX + short: at for short, at in self._records.list(USED)}

    def change(
        self, key_id: str, workspace_id: str | None = None, *, by: str | None = None, integration: str = "cli",
        **changes: Any,
    ) -> KeyRecord:  # fmt: skip
        """Change the `name`, the `status` or the `rate_limit` of a key. None keeps a value. `by` is the actor to log.

        Raises `NotFound`, `InvalidInput` or `Conflict`.
        """
        before = self.get(key_id, workspace_id)
        given = {name: value for name, value in changes.items() if value is not None}
        if before.status == "archived" != given.get("status", "archived"):
            raise InvalidInput("the API key is archived and cannot be activated again")
        after = replace(before, **given)
        rate_of(after.rate_limit)
        plain_name("the name of an API key", after.name)
        entry = self._entry("key_changed", by, integration, after, **given)
        self._keys.put(_short(key_id), after, before=before, entry=entry)
        self._cached.pop(key_id, None)
        return after

    def is_cached(self, text: str) -> bool:
        """Return whether `authenticated` needs no storage for the text of this key."""
        until, record = self._cached.get(id_in(text) or "", (0.0, None))
        if record is None or until <= self._monotonic():
            return False
        return self._is_used(record.id) and (self.groups.is_cached or record.status != "active")

    def authenticated(self, text: str) -> KeyRecord | None:
        """Return the record of the active key with this text, with the grants of its groups. None if there is none.

        The time that this takes does not reveal whether there is a record. A revocation by another process may be
        noticed `CACHE_S` later.
        """
        key_id = id_in(text)
        record = None if key_id is None else self._known(key_id)
        is_right = hmac.compare_digest(digest(text), _NO_DIGEST if record is None else record.digest)
        if not is_right or record is None or record.status_at(self.now()) != "active":
            return None
        if not self._is_used(record.id):  # not part of the transaction of the request
            self._used[record.id] = self._monotonic()
            try:
                self._records.put(USED, _short(record.id), self.now().isoformat())
            except RetentiveError:
                LOG.warning("the time of the last use of %s was not stored", record.id)
        return self.groups.with_groups(record)

    def is_active(self, key: KeyRecord) -> bool:
        """Return whether an API key or OAuth token is active, and still has the same grants.

        For an API key and for groups, the result may be five seconds old.
        """
        record = key if key.id.startswith(TOKEN_PREFIX) else self._known(key.id)
        if record is None or record.status_at(self.now()) != "active":
            return False
        return self.groups.with_groups(record).grants == key.grants

    def _known(self, key_id: str) -> KeyRecord | None:
        """Return the record of a key, from the cache or from storage. None if the key does not exist."""
        until, record = self._cached.get(key_id, (0.0, None))
        if until <= self._monotonic():
            try:
                record = self.get(key_id)
            except NotFound:
                self._cached.pop(key_id, None)
                return None
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            self._cached[key_id] = self._monotonic() + CACHE_S, record
        return record

    def _is_used(self, key_id: str) -> bool:
        """Return whether this process has recorded a use of the key within the last minute."""
        return self._used.get(key_id, -USED_EVERY_S) + USED_EVERY_S > self._monotonic()

    def _entry(self, operation: str, by: str | None, integration: str, record: KeyRecord, **facts: object) -> LogEntry:
        present = {name: value for name, value in facts.items() if value}
        about: dict[str, Any] = {"workspace": record.workspace_id, "key": record.id, **present}
        return entry_of(operation, by, integration=integration, clock=self._clock, **about)


def _short(key_id: str) -> str:
    return key_id.removeprefix(ID_PREFIX)
