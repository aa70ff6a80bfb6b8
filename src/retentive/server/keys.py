"""API keys: creation and verification of the text of a key, and the record that is stored for each key."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import string
import zlib
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple, cast, get_args

from retentive.errors import Damaged, InvalidInput
from retentive.storage.contract import Actor, as_actor
from retentive.values.names import plain_name
from retentive.values.patterns import check_actor_pattern, check_name_pattern, check_path_pattern, matches_actor
from retentive.wire.actors import PRINCIPALS, RESERVED_ACCOUNT
from retentive.wire.keys import KeyStatus, Scope, rate_of

SCOPES: tuple[Scope, ...] = get_args(Scope)
DEFAULT_SCOPES: tuple[Scope, ...] = ("read", "write")
OF_PATHS = {"read", "write"}
"""Scopes that a key limited to paths may have. The other scopes apply to whole memory stores."""
DEFAULT_WORKSPACE = "wrkspc_default"
PREFIX = "rtv_"
ID_PREFIX = "apikey_"
TOKEN_PREFIX = "oauth_"  # noqa: S105 - no password
"""Prefix of the ids of the records made for OAuth tokens. These records are not stored."""
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
    max_body_bytes: int | None = None
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

    def to_text(self) -> str:
        """Return the record as JSON, in the form in which it is stored."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> KeyRecord:
        """Parse a stored record. Raises `Damaged` if the text is malformed."""
        try:
            given: dict[str, Any] = json.loads(text)
            lists = {name: tuple(given.get(name, ())) for name in ("scopes", "stores", "act_as", "paths")}
            return cls(**{**given, **lists})
        except (KeyError, TypeError, ValueError):
            raise Damaged("the record of an API key cannot be read") from None

    def changed(
        self, *, name: str | None = None, status: str | None = None, rate_limit: str | None = None
    ) -> KeyRecord:
        """Return a changed copy of the record. Arguments that are None change nothing.

        Raises `InvalidInput` if a value is invalid, or if an archived key would become active again.
        """
        if status is not None and self.status == "archived" and status != "archived":
            raise InvalidInput("the API key is archived and cannot be activated again")
        named = replace(self, name=plain_name("the name of an API key", name)) if name is not None else self
        rate_of(rate_limit)
        limited = named if rate_limit is None else replace(named, rate_limit=rate_limit)
        return limited if status is None else replace(limited, status=cast("KeyStatus", status))


def new_key(
    name: str, *, now: datetime, key_id: str | None = None, expires_at: datetime | None = None, **fields: Any
) -> NewKey:
    """Create an API key, without storing it. Raises `InvalidInput` if an argument is invalid.

    The default of `key_id` is a result of `new_key_id`. `fields` are other fields of the record.
    """
    short = (key_id or new_key_id()).removeprefix(ID_PREFIX)
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
    scopes, paths = _scopes(record.scopes), tuple(map(check_path_pattern, record.paths))
    if paths and set(scopes) - OF_PATHS:
        raise InvalidInput("a key that is limited to paths can have only the scopes read and write")
    check_principal(record.principal)
    rate_of(record.rate_limit)
    return NewKey(replace(record, scopes=scopes, paths=paths), text)


def new_key_id() -> str:
    """Return a new id of an API key."""
    return ID_PREFIX + _random(_ID_CHARS)


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


def matches(record: KeyRecord | None, text: str) -> bool:
    """Return whether `text` is the text of the key `record`.

    The time that this takes does not reveal whether `record` is None.
    """
    known = _NO_DIGEST if record is None else record.digest
    return hmac.compare_digest(_digest(text), known) and record is not None


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


def _scopes(given: tuple[str, ...]) -> tuple[Scope, ...]:
    known = tuple(scope for scope in SCOPES if scope in given)
    if not given or set(given) - set(known):
        raise InvalidInput(f"scopes must be one or more of {', '.join(SCOPES)}")
    return known


def _random(chars: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(chars))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _check_sum(text: str) -> str:
    number, found = zlib.crc32(text.encode("ascii")), ""
    for _ in range(_CHECK_CHARS):
        number, digit = divmod(number, len(_ALPHABET))
        found += _ALPHABET[digit]
    return found
