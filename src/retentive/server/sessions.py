"""Sign-ins to the console. A cookie has a random token that belongs to somebody's rights. Only its hash is stored."""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from retentive.errors import Conflict, NotFound
from retentive.server.keys import DEFAULT_WORKSPACE, TOKEN_PREFIX, KeyStore, id_in
from retentive.server.limits import Failures
from retentive.server.rights import SCOPES, KeyRecord
from retentive.store.location_records import LocationRecords, LogEntry, entry_of
from retentive.values.text import digest

if TYPE_CHECKING:
    from retentive.server.openid import People

KIND = "console_session"
IDLE_S, LONGEST_S = 3_600, 12 * 3_600
SEEN_EVERY_S = 60
"""The time of the last request is stored at most once a minute."""
CODE_S, CODE_TRIES = 60, 5
_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_MASK_CHARS = 16
ID_CHARS = 16
PERSON = "person"
"""Kind of the records of people who signed in at an identity provider (`openid.py`)."""
FRESH_S = 600
"""Seconds for which such a sign-in counts for irreversible changes, for which others type their key again."""


@dataclass
class OneTimeCode:
    """Code with which a person signs in to a local location as an actor. It works once, within `lasts_s` seconds."""

    actor: str
    text: str = field(default_factory=lambda: "".join(secrets.choice(_ALPHABET) for _ in range(8)))
    made: float = field(default_factory=time.monotonic)
    tries: int = 0
    lasts_s: int = CODE_S

    def accepts(self, given: str, now: float) -> bool:
        """Return whether `given` is the code. It is accepted only once, and becomes invalid after five wrong tries."""
        self.tries += 1
        plain = given.strip().upper().replace("-", "")
        is_right = hmac.compare_digest(plain.encode("utf-8", "replace"), self.text.encode())
        if not is_right or self.tries > CODE_TRIES or not 0 <= now - self.made <= self.lasts_s:
            return False
        self.tries = CODE_TRIES
        return True


class SignInRefused(Exception):
    """Somebody may not sign in. `outcome` and `facts`, such as the actor, are for the audit log."""

    def __init__(self, outcome: str, **facts: str) -> None:
        super().__init__(outcome)
        self.outcome, self.facts = outcome, facts


class Session(NamedTuple):
    """Open sign-in, as people see it. `id` is no secret. `address` is the one of the browser that signed in."""

    id: str
    actor: str
    key: str
    since: datetime
    seen: datetime
    address: str


class Sessions:
    """Sign-ins of a server. Threads may share the object."""

    def __init__(
        self,
        keys: KeyStore,
        records: LocationRecords,
        code: OneTimeCode | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys, self._records, self._code, self._clock = keys, records, code, clock
        self.people: People | None = None
        self.failures = Failures(clock)

    @property
    def is_local(self) -> bool:
        """True if people sign in with a one-time code."""
        return self._code is not None

    def authenticated(self, given: str, address: str) -> KeyRecord | None:
        """Return the API key that has the text `given`, or None. `address` is the one of the client.

        If people sign in with a one-time code, `given` must be this code, and the key is that of a local location.
        A right key is always accepted, however many wrong ones came before. Raises `HttpError` 429 if the given one is
        wrong, and many were wrong within the last minute.
        """
        if self._code is None:
            found = self._keys.authenticated(given.strip())
        else:
            found = self._local(self._code) if self._code.accepts(given, time.monotonic()) else None
        if found is None:
            self.refused("invalid_key", address, key=id_in(given.strip()) or "")
        return found

    def refused(self, outcome: str, address: str, *, actor: str | None = None, key: str = "", **facts: str) -> None:
        """Count a failed sign-in and note it in the audit log. Raises `HttpError` 429 if there were too many."""
        if not self.failures.add(address, key):
            return
        facts = {"workspace": DEFAULT_WORKSPACE, **facts, "key": key, "address": address}
        with suppress(NotFound):
            facts["workspace"] = self._keys.get(key).workspace_id
        self._records.log(self._entry("sign_in", actor, outcome, **facts))

    def is_own_key(self, record: KeyRecord, given: str, address: str) -> bool:
        """Return whether `given` is the text of the key. A person types it again before an irreversible change."""
        if self._code is not None:
            return True
        if record.id.startswith(TOKEN_PREFIX):
            return self.is_fresh(record)
        found = self.authenticated(given, address)
        return found is not None and found.id == record.id

    def is_fresh(self, record: KeyRecord) -> bool:
        """Return whether somebody without a key signed in at the identity provider just now."""
        return self._clock() - datetime.fromisoformat(record.created_at).timestamp() <= FRESH_S

    def begin(self, record: KeyRecord, address: str = "", **facts: str) -> str:
        """Start a sign-in and return its new token. Expired sign-ins are removed."""
        now, token = self._clock(), secrets.token_urlsafe(32)
        for name, value in self._records.list(KIND):
            if not _is_valid(fields_of(value), now):
                self._records.put(KIND, name, None)
        begun = {"key": record.id, "workspace": record.workspace_id, "address": address}
        text = json.dumps({**begun, "actor": str(record.actor), "since": now, "seen": now})
        self._records.put(KIND, digest(token), text, entry=self._entry("sign_in", str(record.actor), **begun, **facts))
        return token

    def found(self, token: str, *, is_poll: bool = False) -> KeyRecord | None:
        """Return the key of a sign-in, or None if the sign-in or the key is no longer valid.

        A request prolongs the sign-in, unless the page sent it by itself (`is_poll`).
        """
        name = digest(token)
        text = self._records.get(KIND, name)
        known, now = fields_of(text), self._clock()
        if text is None or not _is_valid(known, now):
            return None
        record = self.record(known["key"])
        if record is not None and not is_poll and now - known["seen"] > SEEN_EVERY_S:
            with suppress(Conflict):  # signed out meanwhile
                self._records.put(KIND, name, json.dumps({**known, "seen": now}), expected=text)
        is_person = record is not None and record.id.startswith(TOKEN_PREFIX)
        return replace(record, created_at=_time(known["since"]).isoformat()) if record and is_person else record

    def open(self, workspace_id: str, actor: str | None = None) -> list[Session]:
        """Return the open sign-ins of a workspace, or those of one actor in it, last used first."""
        now, found = self._clock(), list[Session]()
        gone = {each.id for each in self._keys.all(workspace_id) if each.status_at(self._keys.now()) != "active"}
        for name, text in self._records.list(KIND):
            known = fields_of(text)
            if not _is_valid(known, now) or known["key"] in gone:
                continue
            if known["workspace"] == workspace_id and actor in {None, known["actor"]}:
                since, seen = _time(known["since"]), _time(known["seen"])
                found.append(Session(name[:ID_CHARS], known["actor"], known["key"], since, seen, known["address"]))
        return sorted(found, key=lambda each: each.seen, reverse=True)

    def end(self, token: str, address: str = "") -> str:
        """Sign out. Return the id of the rights, or an empty text if the sign-in had ended."""
        return self._end(digest(token), address=address)

    def end_of(self, sessions: Iterable[Session], *, by: str, address: str = "") -> None:
        """End sign-ins. `by` is the actor that ends them."""
        ended = {each.id for each in sessions}
        for name, _ in self._records.list(KIND):
            if name[:ID_CHARS] in ended:
                self._end(name, by=by, address=address)

    def _end(self, name: str, **facts: str) -> str:
        known = fields_of(self._records.get(KIND, name))
        if not known:
            return ""
        entry = self._entry("sign_out", known["actor"], workspace=known["workspace"], key=known["key"], **facts)
        self._records.put(KIND, name, None, entry=entry)
        return str(known["key"])

    def record(self, key_id: str) -> KeyRecord | None:
        """Return the current rights of somebody who signed in, by the id of the record. None if there are none left."""
        if self._code is not None:
            return self._local(self._code)
        found = None
        if key_id.startswith(TOKEN_PREFIX):
            found = None if self.people is None else self.people.record(key_id)
        else:
            with suppress(NotFound):
                found = self._keys.get(key_id)
        if found is not None and found.status_at(self._keys.now()) == "active":
            return self._keys.groups.with_groups(found)
        for name, text in self._records.list(KIND):
            if fields_of(text).get("key") == key_id:
                self._end(name, reason="no_longer_valid")
        return None

    def _entry(self, operation: str, actor: str | None, outcome: str = "ok", **facts: str) -> LogEntry:
        present = {name: value for name, value in facts.items() if value}
        return entry_of(operation, actor, outcome, integration="console", clock=self._clock, **present)

    @staticmethod
    def _local(code: OneTimeCode) -> KeyRecord:
        """Return the key of a local location. It has all scopes: its owner can change the files anyway."""
        return KeyRecord(
            id="apikey_local", name="this machine", digest="", partial_key_hint="", workspace_id="wrkspc_default",
            scopes=SCOPES, created_at="1970-01-01T00:00:00+00:00", principal=code.actor,
        )  # fmt: skip


def form_token(secret: str, mask: str = "") -> str:
    """Return a CSRF token for a cookie. It differs on each page, so that compression does not reveal it."""
    mask = mask or secrets.token_hex(_MASK_CHARS // 2)
    return mask + hmac.new(secret.encode(), b"form" + mask.encode(), "sha256").hexdigest()


def is_form_token(secret: str, given: str) -> bool:
    """Return whether `given` is a CSRF token for the cookie."""
    return given.isascii() and hmac.compare_digest(given, form_token(secret, given[:_MASK_CHARS] or "-"))


def fields_of(text: str | None) -> dict[str, Any]:
    """Return the fields of a record. Empty if there is none or it is damaged, so that it keeps nobody else out."""
    with suppress(ValueError):
        found = json.loads(text or "{}")
        return found if isinstance(found, dict) else {}
    return {}


def _is_valid(known: Mapping[str, Any], now: float) -> bool:
    return bool(known and now - known["seen"] <= IDLE_S and now - known["since"] <= LONGEST_S)


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
