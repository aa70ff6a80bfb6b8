"""Seal of an encrypted memory store (`StoreInfo.seal`): its wrapped data key, and facts that can be read without a key.

A data key is wrapped if it is encrypted with a key-encryption key (`keys.py`).
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, replace

from retentive.errors import Damaged, InvalidInput, Locked, UnknownSchema
from retentive.storage.contract import plain_name
from retentive.storage.sealed.keys import KEY_BYTES, NOT_HERE, KeyWrapper, call_wrapper

FORMAT = 1


@dataclass(frozen=True, slots=True)
class StoreSeal:
    """Seal of one memory store. Its data key is either wrapped or destroyed.

    `kek` is the id of the key that wraps the data key, and `key` is the wrapped data key in base64. `destroyed_at` is
    an ISO 8601 time.
    """

    kek: str | None = None
    key: str | None = None
    destroyed_at: str | None = None

    @classmethod
    def parse(cls, text: str) -> StoreSeal:
        """Parse the JSON that is stored with the store. Raises `Damaged`, or `UnknownSchema` for a newer format."""
        try:
            given = json.loads(text)
            version = given.pop("format")
            seal = None if version != FORMAT else cls(**given)
            if seal is not None and seal.destroyed_at is None:
                plain_name("a key id", seal.kek or "")
                base64.b64decode(seal.key or "*", validate=True)
            elif seal is not None and (seal.kek, seal.key) != (None, None):
                seal = None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidInput):
            seal = version = None
        if isinstance(version, int) and version > FORMAT:
            raise UnknownSchema(f"the memory store is encrypted in the newer format {version}; upgrade retentive")
        if seal is None:
            raise Damaged("the encryption metadata of the memory store cannot be read")
        return seal

    def to_text(self) -> str:
        """Return the seal as JSON."""
        return json.dumps({"format": FORMAT} | {name: one for name, one in asdict(self).items() if one is not None})

    def data_key(self, store_id: str, keys: KeyWrapper) -> bytes:
        """Unwrap and return the data key. Raises `Locked` if it was destroyed, or if `keys` cannot unwrap it."""
        if self.destroyed_at is not None:
            raise Locked(f"the encryption key of the memory store was destroyed at {self.destroyed_at}")
        wrapped, context = base64.b64decode(self.key or ""), _context(store_id)
        data_key = call_wrapper(lambda: keys.unwrap(str(self.kek), wrapped, context))
        if len(data_key) != KEY_BYTES:
            raise Locked(NOT_HERE)
        return data_key

    def holding(self, data_key: bytes, store_id: str, keys: KeyWrapper) -> StoreSeal:
        """Return a copy of the seal with this data key, wrapped with the current key-encryption key."""
        kek, key = call_wrapper(lambda: keys.wrap(data_key, _context(store_id)))
        return replace(self, kek=kek, key=base64.b64encode(key).decode())


def _context(store_id: str) -> bytes:
    """Return the associated data of a wrapped key, because of which it cannot be moved to another store."""
    return f"retentive {FORMAT}\0{store_id}".encode()
