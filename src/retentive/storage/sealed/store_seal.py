"""Seal of an encrypted memory store (`StoreInfo.seal`): its wrapped data key, and facts that can be read without a key.

A data key is wrapped if it is encrypted with a key-encryption key (`keys.py`).
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import cast

from retentive.errors import Damaged, InvalidInput, Locked, UnknownSchema
from retentive.storage.contract import Clock, now_us, plain_name, to_datetime
from retentive.storage.sealed.codec import StoreKeys
from retentive.storage.sealed.keys import KEY_BYTES, NOT_HERE, KeyWrapper, call_wrapper

FORMAT = 1
_TIMES = ("created_at", "rotated_at", "destroyed_at")
_UNREADABLE = "the encryption metadata of the memory store cannot be read"


@dataclass(frozen=True, slots=True)
class StoreSeal:
    """Seal of one memory store. Its data key is either wrapped, or not created yet (`pending`), or destroyed.

    `kek_id` is the id of the key that wraps the data key. `paths` is true if the paths of the store are encrypted.
    """

    paths: bool
    created_at: str
    kek_id: str | None = None
    wrapped: bytes | None = None
    rotated_at: str | None = None
    destroyed_at: str | None = None

    @classmethod
    def parse(cls, text: str) -> StoreSeal:
        """Parse the JSON that is stored with the store. Raises `Damaged`, or `UnknownSchema` for a newer format."""
        try:
            given = json.loads(text)
            version = given["format"]
            if isinstance(version, int) and version > FORMAT:
                known = f"this version of retentive supports only format {FORMAT}"
                raise UnknownSchema(
                    f"the memory store is encrypted in format {version}, but {known}; upgrade retentive"
                )
            key = given.get("key")
            kek_id = None if given.get("kek") is None else plain_name("a key id", given["kek"])
            wrapped = None if key is None else base64.b64decode(key, validate=True)
            created, rotated, destroyed = (_time(given.get(name)) for name in _TIMES)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidInput):
            raise Damaged(_UNREADABLE) from None
        if version != FORMAT or (kek_id is None) != (key is None) or created is None or (key and destroyed):
            raise Damaged(_UNREADABLE)
        return cls(bool(given.get("paths")), created, kek_id, wrapped, rotated, destroyed)

    def to_text(self) -> str:
        """Return the seal as JSON."""
        key = None if self.wrapped is None else base64.b64encode(self.wrapped).decode()
        given = {"format": FORMAT, "kek": self.kek_id, "key": key, "paths": self.paths}
        given |= {name: getattr(self, name) for name in _TIMES}
        return json.dumps({name: value for name, value in given.items() if value is not None})

    @property
    def pending(self) -> bool:
        """True if the data key does not exist yet.

        The key is created after the store, because it is bound to the store id.
        """
        return self.wrapped is None and self.destroyed_at is None

    def data_key(self, store_id: str, keys: KeyWrapper) -> bytes:
        """Unwrap and return the data key. Raises `Locked` if it was destroyed, or if `keys` cannot unwrap it."""
        kek_id, wrapped = self.kek_id, self.wrapped
        if self.destroyed_at is not None:
            raise Locked(f"the encryption key of the memory store was destroyed at {self.destroyed_at}")
        if kek_id is None or wrapped is None:
            raise Locked(NOT_HERE)
        data_key = cast("bytes", call_wrapper(lambda: keys.unwrap(kek_id, wrapped, self._context(store_id))))
        if len(data_key) != KEY_BYTES:
            raise Locked(NOT_HERE)
        return data_key

    def opened(self, store_id: str, keys: KeyWrapper) -> StoreKeys:
        """Unwrap the data key, derive the keys of the store from it, and return them. Raises `Locked`."""
        return StoreKeys(self.data_key(store_id, keys), store_id, seal_paths=self.paths)

    def holding(self, data_key: bytes, store_id: str, keys: KeyWrapper) -> StoreSeal:
        """Return a copy of the seal, with a new data key: `data_key`, wrapped with the current key-encryption key."""
        result = call_wrapper(lambda: keys.wrap(data_key, self._context(store_id)))
        kek_id, wrapped = cast("tuple[str, bytes]", result)
        return replace(self, kek_id=kek_id, wrapped=wrapped)

    def destroyed(self, clock: Clock) -> StoreSeal:
        """Return a copy of the seal without the data key. The copy has the current time as the time of destruction."""
        return replace(self, kek_id=None, wrapped=None, destroyed_at=timestamp(clock))

    def _context(self, store_id: str) -> bytes:
        """Return the associated data of the wrapped key.

        Because of this data, a wrapped key cannot be moved to another store, and the field `paths` cannot be changed.
        """
        return f"retentive {FORMAT}\0{store_id}\0{'paths' if self.paths else 'texts'}".encode()


def timestamp(clock: Clock) -> str:
    """Return the current time in the format that a seal uses."""
    return to_datetime(now_us(clock)).isoformat(timespec="seconds").replace("+00:00", "Z")


def _time(text: str | None) -> str | None:
    """Check the format of a time from a seal, and return the time. Raises `ValueError`."""
    if text is None:
        return None
    return datetime.fromisoformat(text).astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
