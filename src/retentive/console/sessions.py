"""Sign-ins to the console. A cookie has a random token that belongs to an API key. Only the token's hash is stored."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from retentive.errors import NotFound
from retentive.server.keys import SCOPES, KeyRecord, KeyStore
from retentive.store.location_records import LocationRecords

KIND = "console_session"
IDLE_S, LONGEST_S = 3_600, 12 * 3_600
SEEN_EVERY_S = 60
"""The time of the last request is stored at most once a minute."""
CODE_S, CODE_TRIES = 60, 5
_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_MASK_CHARS = 16
_MAX_FAILURES, _MAX_WATCHED = 10, 10_000


@dataclass
class OneTimeCode:
    """Code with which a person signs in to a local location as an actor. It works once, within a minute."""

    actor: str
    text: str = field(default_factory=lambda: "".join(secrets.choice(_ALPHABET) for _ in range(8)))
    made: float = field(default_factory=time.monotonic)
    tries: int = 0

    def accepts(self, given: str, now: float) -> bool:
        """Return whether `given` is the code. It is accepted only once, and becomes invalid after five wrong tries."""
        self.tries += 1
        plain = given.strip().upper().replace("-", "")
        is_right = hmac.compare_digest(plain.encode("utf-8", "replace"), self.text.encode())
        if not is_right or self.tries > CODE_TRIES or not 0 <= now - self.made <= CODE_S:
            return False
        self.tries = CODE_TRIES
        return True


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
        self._failures: dict[str, list[float]] = {}

    @property
    def is_local(self) -> bool:
        """True if people sign in with a one-time code."""
        return self._code is not None

    def is_blocked(self, who: str) -> bool:
        """Return whether a client address or key had ten failed sign-ins in this process within the last minute."""
        now = self._clock()
        recent = [at for at in self._failures.get(who, ()) if now - 60 < at <= now]
        self._failures[who] = recent
        return len(recent) >= _MAX_FAILURES

    def authenticated(self, given: str, who: str) -> KeyRecord | None:
        """Return the API key that has the text `given`, or None. `who` is the address of the client.

        If people sign in with a one-time code, `given` must be this code, and the key is that of a local location.
        """
        if self._code is None:
            found = self._keys.authenticated(given.strip())
        else:
            found = self._local(self._code) if self._code.accepts(given, time.monotonic()) else None
        if found is None:
            if len(self._failures) >= _MAX_WATCHED:
                self._failures.clear()
            self._failures.setdefault(who, []).append(self._clock())
        return found

    def is_own_key(self, record: KeyRecord, given: str) -> bool:
        """Return whether `given` is the text of the key. A person types it again before an irreversible change."""
        if self._code is not None:
            return True
        found = None if self.is_blocked(record.id) else self.authenticated(given, record.id)
        return found is not None and found.id == record.id

    def begin(self, record: KeyRecord) -> str:
        """Start a sign-in and return its new token. Expired sign-ins are removed."""
        now, token = self._clock(), secrets.token_urlsafe(32)
        for name, value in self._records.list(KIND):
            if not _is_valid(json.loads(value), now):
                self._records.put(KIND, name, None)
        self._records.put(KIND, _digest(token), json.dumps({"key": record.id, "since": now, "seen": now}))
        return token

    def found(self, token: str, *, is_poll: bool = False) -> KeyRecord | None:
        """Return the key of a sign-in, or None if the sign-in or the key is no longer valid.

        A request prolongs the sign-in, unless the page sent it by itself (`is_poll`).
        """
        name = _digest(token)
        text = self._records.get(KIND, name)
        if text is None:
            return None
        known, now = json.loads(text), self._clock()
        if not _is_valid(known, now):
            return None
        record = self._record(known["key"])
        if record is not None and not is_poll and now - known["seen"] > SEEN_EVERY_S:
            self._records.put(KIND, name, json.dumps({**known, "seen": now}))
        return record

    def end(self, token: str) -> None:
        """Sign out."""
        self._records.put(KIND, _digest(token), None)

    def _record(self, key_id: str) -> KeyRecord | None:
        if self._code is not None:
            return self._local(self._code)
        try:
            record = self._keys.get(key_id)
        except NotFound:
            return None
        return record if record.status_at(self._keys.now()) == "active" else None

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


def _is_valid(known: dict[str, float], now: float) -> bool:
    return now - known["seen"] <= IDLE_S and now - known["since"] <= LONGEST_S


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
