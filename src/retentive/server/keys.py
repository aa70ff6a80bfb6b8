"""API keys: their text, the records that are stored for them, and the authentication of requests with a cache."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import string
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, get_args

from pydantic import TypeAdapter

from retentive.errors import Damaged, InvalidInput, NotFound, RetentiveError
from retentive.storage.contract import Actor, as_actor
from retentive.store.location_records import LocationRecords
from retentive.values.patterns import check_actor_pattern, check_name_pattern, check_path_pattern, matches_actor
from retentive.values.text import plain_name
from retentive.wire.base import PRINCIPALS, RESERVED_ACCOUNT
from retentive.wire.stores import KeyStatus, Scope, rate_of

SCOPES: tuple[Scope, ...] = get_args(Scope)
DEFAULT_SCOPES: tuple[Scope, ...] = ("read", "write")
OF_PATHS = {"read", "write"}
"""Scopes that a key limited to paths may have. The other scopes apply to whole memory stores."""
DEFAULT_WORKSPACE = "wrkspc_default"
PREFIX = "rtv_"
ID_PREFIX = "apikey_"
TOKEN_PREFIX = "oauth_"  # noqa: S105 - no password
"""Prefix of the ids of the records made for OAuth tokens. These records are not stored."""
LOG = logging.getLogger("retentive.server")
_ALPHABET = string.ascii_letters + string.digits
_ID_CHARS, _SECRET_CHARS, _CHECK_CHARS = 12, 43, 6  # 43 random characters out of 62 have 256 bits
_LENGTH = len(PREFIX) + _ID_CHARS + 1 + _SECRET_CHARS + _CHECK_CHARS
_NO_DIGEST = hashlib.sha256(b"").hexdigest()


class NewKey(NamedTuple):
    """New API key: `record`, which is stored, and `text`, which is shown once and never stored."""

    record: KeyRecord
    text: str


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """Stored record of an API key.

    `digest` is the SHA-256 of the text of the key. The text is random, so no slow hash is needed. `stores` lists the
    memory stores that the key may see: their ids, or patterns that match their store keys. If it is empty, the key sees
    all memory stores of its workspace. `paths` lists patterns of the paths that the key may see and change. If it is
    empty, the key may see and change all paths. `act_as` lists patterns of the actors that a request with the key may
    name. `principal` is the actor that the key belongs to, such as `user:ann`. `rate_limit` is a text such as `50/s`,
    `none` for no limit, or None for the default limit of the server.
    """

    id: str
    name: str
    digest: str
    partial_key_hint: str
    workspace_id: str
    scopes: tuple[Scope, ...]
    created_at: str
    created_by: str | None = None
    status: KeyStatus = "active"
    stores: tuple[str, ...] = ()
    act_as: tuple[str, ...] = ()
    principal: str | None = None
    expires_at: str | None = None
    rate_limit: str | None = None
    paths: tuple[str, ...] = ()

    def status_at(self, now: datetime) -> KeyStatus:
        """Return the status of the key at a time: its stored status, or `expired`."""
        if self.status == "active" and self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= now:
            return "expired"
        return self.status

    def allows(self, scope: Scope) -> bool:
        """Return whether the key has a scope. The scope `admin` includes all others."""
        return scope in self.scopes or "admin" in self.scopes

    def sees(self, store_id: str, store_key: str | None) -> bool:
        """Return whether the API key may see the memory store with this id and this store key in its workspace."""
        return in_patterns(self.stores, store_id, store_key)

    @property
    def actor(self) -> Actor:
        """Actor to record for changes that are made with this key, unless a request names another actor."""
        named = as_actor(self.principal)
        return Actor("api_key", self.id) if named is None else named

    def acts_as(self, actor: str) -> bool:
        """Return whether a request with this key may name the actor."""
        return any(matches_actor(pattern, actor) for pattern in self.act_as)


_RECORD = TypeAdapter(KeyRecord)


def _parsed(text: str) -> KeyRecord:
    try:
        return _RECORD.validate_json(text)
    except ValueError:
        raise Damaged("the record of an API key cannot be read") from None


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
        digest=_digest(text),
        partial_key_hint=f"{PREFIX}{short[:4]}...{text[-4:]}",
        created_at=now.isoformat(),
        expires_at=None if expires_at is None else expires_at.isoformat(),
        **{"workspace_id": DEFAULT_WORKSPACE, "scopes": DEFAULT_SCOPES, **fields},
    )
    if expires_at is not None and expires_at <= now:
        raise InvalidInput("expires_at must be in the future")
    plain_name("a workspace id", record.workspace_id)
    for pattern in record.stores:
        check_name_pattern(pattern)
    for pattern in record.act_as:
        check_actor_pattern(pattern)
    scopes = tuple(scope for scope in SCOPES if scope in record.scopes)
    paths = tuple(map(check_path_pattern, record.paths))
    if paths and set(scopes) - OF_PATHS:
        raise InvalidInput("a key that is limited to paths can have only the scopes read and write")
    check_principal(record.principal)
    rate_of(record.rate_limit)
    return NewKey(replace(record, scopes=scopes, paths=paths), text)


def in_patterns(patterns: tuple[str, ...], store_id: str, store_key: str | None) -> bool:
    """Return whether a pattern matches the id or the key of a memory store. Returns True if there are no patterns."""
    return not patterns or any(
        pattern == store_id or (store_key is not None and matches_actor(pattern, store_key)) for pattern in patterns
    )


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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _check_sum(text: str) -> str:
    return f"{zlib.crc32(text.encode('ascii')) & 0xFFFFFF:06x}"


KIND = "api_key"
USED = "api_key_used"
CACHE_S = 5.0
"""Maximum time until every process has noticed that a key was revoked."""
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
        self._records = records
        self._clock = clock
        self._monotonic = monotonic
        self._cached: dict[str, tuple[float, KeyRecord]] = {}
        self._used: dict[str, float] = {}

    def now(self) -> datetime:
        """Return the current time."""
        return datetime.fromtimestamp(self._clock(), UTC)

    def create(self, name: str, **options: Any) -> NewKey:
        """Create an API key and store its record. `options` are those of `new_key`.

        Raises `InvalidInput` if an option is invalid.
        """
        made = new_key(name, now=self.now(), **options)
        self._put(made.record, None)
        return made

    def first(self) -> NewKey | None:
        """Create an admin key if the location has never had a key, else return None."""
        return None if self._records.list(KIND, limit=1) else self.create("first admin key", scopes=("admin",))

    def get(self, key_id: str, workspace_id: str | None = None) -> KeyRecord:
        """Return the record of a key. Raises `NotFound` if it does not exist or is in another workspace."""
        return self._stored(key_id, workspace_id)[1]

    def all(self, workspace_id: str | None = None) -> list[KeyRecord]:
        """Return the records of all keys, newest first. With `workspace_id`, return only keys of that workspace."""
        found = [_parsed(text) for _, text in self._records.list(KIND)]
        chosen = (record for record in found if workspace_id in {None, record.workspace_id})
        return sorted(chosen, key=lambda record: (record.created_at, record.id), reverse=True)

    def last_uses(self) -> dict[str, str]:
        """Return the time of the last use of each API key, by key id.

        Keys that were never used are missing. Times may be a minute too early.
        """
        return {ID_PREFIX + short: at for short, at in self._records.list(USED)}

    def change(self, key_id: str, workspace_id: str | None = None, **changes: Any) -> KeyRecord:
        """Change the `name`, the `status` or the `rate_limit` of a key. None keeps a value.

        Raises `NotFound`, `InvalidInput` or `Conflict`.
        """
        text, before = self._stored(key_id, workspace_id)
        given = {name: value for name, value in changes.items() if value is not None}
        if before.status == "archived" != given.get("status", "archived"):
            raise InvalidInput("the API key is archived and cannot be activated again")
        after = replace(before, **given)
        rate_of(after.rate_limit)
        plain_name("the name of an API key", after.name)
        self._put(after, text)
        self._cached.pop(key_id, None)
        return after

    def is_cached(self, text: str) -> bool:
        """Return whether `authenticated` needs no storage for this text."""
        key_id = id_in(text)
        return key_id is None or (
            self._cached.get(key_id, (0.0, None))[0] > self._monotonic() and self._is_used(key_id)
        )

    def authenticated(self, text: str) -> KeyRecord | None:
        """Return the record of the active key with this text. None if there is no such key.

        The time that this takes does not reveal whether there is a record. A revocation by another process may be
        noticed `CACHE_S` later.
        """
        key_id = id_in(text)
        record = None if key_id is None else self._known(key_id)
        is_right = hmac.compare_digest(_digest(text), _NO_DIGEST if record is None else record.digest)
        if not is_right or record is None or record.status_at(self.now()) != "active":
            return None
        if not self._is_used(record.id):  # not part of the transaction of the request
            self._used[record.id] = self._monotonic()
            try:
                self._records.put(USED, _short(record.id), self.now().isoformat())
            except RetentiveError:
                LOG.warning("the time of the last use of %s was not stored", record.id)
        return record

    def is_active(self, key: KeyRecord) -> bool:
        """Return whether an API key or OAuth token is active. For an API key, the result may be five seconds old."""
        record = key if key.id.startswith(TOKEN_PREFIX) else self._known(key.id)
        return record is not None and record.status_at(self.now()) == "active"

    def _stored(self, key_id: str, workspace_id: str | None) -> tuple[str, KeyRecord]:
        """Return the stored text and the record of a key. Another version may have written that text differently."""
        text = self._records.get(KIND, _short(key_id)) if _is_id(key_id) else None
        record = None if text is None else _parsed(text)
        if text is None or record is None or workspace_id not in {None, record.workspace_id}:
            raise NotFound("there is no such API key")
        return text, record

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

    def _put(self, record: KeyRecord, expected: str | None) -> None:
        self._records.put(KIND, _short(record.id), _RECORD.dump_json(record).decode(), expected=expected)


def _is_id(key_id: str) -> bool:
    return key_id.startswith(ID_PREFIX) and _short(key_id).isalnum() and key_id.isascii() and len(key_id) < 40


def _short(key_id: str) -> str:
    return key_id.removeprefix(ID_PREFIX)
