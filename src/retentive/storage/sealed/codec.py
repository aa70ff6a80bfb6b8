"""Encryption and decryption of texts, seals and values of one memory store, and the seal of the store itself.

The seal of a store (`StoreInfo.seal`) has its wrapped data key, and facts that can be read without a key. A data key is
wrapped if it is encrypted with a key-encryption key (`keys.py`).

A seal is the encrypted metadata of a row. The cipher is AES-256-GCM with random 96-bit nonces. The unencrypted fields
of a row (store, memory, version, path) are the associated data of its seal. The seal has the hash of the text, and the
id of the version that contains this text. Therefore, a row that was moved, swapped, renamed or truncated cannot be
decrypted.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from retentive.errors import Damaged, InvalidInput, Locked, UnknownSchema
from retentive.storage.contract import plain_name
from retentive.storage.packs import Packing
from retentive.storage.sealed.keys import KEY_BYTES, NONCE_BYTES, NOT_HERE, KeyWrapper, call_wrapper

FORMAT = 1  # of the seal of a store
TEXT_HEADER = b"\xffCPT\x01"  # invalid UTF-8, so it cannot begin a plain text; the last byte is the format
SEAL_HEADER = b"\xffCPS\x01"
PACK_HEADER = b"\xffCPP\x01"


class Unsealed(NamedTuple):
    """Content of a seal: hash and size of the text, and the provenance.

    The hash and the size are None for a deletion. `text_of` is the id of the version whose row contains the text. A
    version that only renamed the memory has no text of its own.
    """

    sha256: str | None = None
    size_bytes: int | None = None
    text_of: str | None = None
    provenance: str | None = None


class StoreKeys(Packing):
    """Keys of one memory store, and methods that encrypt and decrypt its data. Threads may share the object.

    All methods that decrypt raise `Damaged` if the data is missing, was modified, or belongs to something else. The
    frame of a pack is encrypted as a whole. The backend below knows each text only in its encrypted form, so a text
    from a pack is encrypted again for it.
    """

    def __init__(self, data_key: bytes, store_id: str) -> None:
        self._store_id = store_id
        self._text = AESGCM(_derived(data_key, b"text"))
        self._seal = AESGCM(_derived(data_key, b"seal"))

    def seal_value(self, value: str | None, *names: str) -> str | None:
        """Encrypt a setting, property or record. Returns base64. `names` say which value of the store it is."""
        if value is None:
            return None
        return base64.b64encode(self._encrypted(self._seal, b"", value.encode(), *names)).decode()

    def open_value(self, sealed: str | None, *names: str) -> str | None:
        """Decrypt a value that `seal_value` encrypted with the same `names`."""
        if sealed is None:
            return None
        try:
            data = base64.b64decode(sealed, validate=True)
        except ValueError:
            data = None
        return self._decrypted(self._seal, b"", data, f"a stored value ({names[0]})", *names).decode()

    def stored(self, version_id: str, text: bytes) -> bytes:
        """Encrypt a text. The result can only be decrypted as the text of this version."""
        return self._encrypted(self._text, TEXT_HEADER, text, "text", version_id)

    def opened(self, version_id: str, stored: bytes | None) -> bytes:
        return self._decrypted(self._text, TEXT_HEADER, stored, "the stored text", "text", version_id)

    def wrapped(self, frame: bytes) -> bytes:
        return self._encrypted(self._text, PACK_HEADER, frame, "pack")

    def unwrapped(self, stored: bytes) -> bytes:
        return self._decrypted(self._text, PACK_HEADER, stored, "a pack of earlier texts", "pack")

    def open_text(self, sealed: bytes | None, unsealed: Unsealed) -> bytes | None:
        """Decrypt the text that belongs to a seal. Returns None for a deletion."""
        if unsealed.text_of is None:
            if sealed is not None:
                raise Damaged("a deletion in an encrypted memory store must not have a text")
            return None
        data = self.opened(unsealed.text_of, sealed)
        if len(data) != unsealed.size_bytes:
            raise Damaged("the size of a decrypted text differs from the size in its encrypted metadata")
        return data

    def seal(self, unsealed: Unsealed, memory_id: str, version_id: str, path: str) -> bytes:
        """Encrypt the metadata of a version."""
        data = json.dumps(unsealed).encode()
        return self._encrypted(self._seal, SEAL_HEADER, data, "seal", memory_id, version_id, path)

    def open_seal(self, seal: bytes | None, memory_id: str, version_id: str, path: str) -> Unsealed:
        """Decrypt the metadata of a version."""
        row = "seal", memory_id, version_id, path
        return Unsealed(*json.loads(self._decrypted(self._seal, SEAL_HEADER, seal, f"the seal of {version_id}", *row)))

    def _encrypted(self, cipher: AESGCM, header: bytes, data: bytes, *names: str) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return header + nonce + cipher.encrypt(nonce, data, self._bound(names))

    def _decrypted(self, cipher: AESGCM, header: bytes, sealed: bytes | None, what: str, *names: str) -> bytes:
        if not isinstance(sealed, bytes) or not sealed.startswith(header):
            raise Damaged(f"{what} of an encrypted memory store is missing or not encrypted")
        start = len(header) + NONCE_BYTES
        try:
            return cipher.decrypt(sealed[len(header) : start], memoryview(sealed)[start:], self._bound(names))
        except (InvalidTag, ValueError):
            raise Damaged(f"decryption failed: {what} was modified or belongs to another version or key") from None

    def _bound(self, names: tuple[str, ...]) -> bytes:
        # Ids, kinds, keys and paths contain no NUL, so different rows have different associated data.
        return "\0".join((self._store_id, *names)).encode("utf-8", "surrogatepass")


def _derived(data_key: bytes, use: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=b"retentive 1 " + use).derive(data_key)


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
