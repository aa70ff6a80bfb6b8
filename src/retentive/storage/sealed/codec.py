"""Encryption and decryption of texts, seals, values and names of one memory store.

A seal is the encrypted metadata of a row. The cipher is AES-256-GCM with random 96-bit nonces. The unencrypted fields
of a row (store, memory, version, path) are the associated data of its seal. The seal has the hash of the text, and the
id of the version that contains this text. Therefore, a row that was moved, swapped, renamed or truncated cannot be
decrypted.
"""

from __future__ import annotations

import base64
import json
import os
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from retentive.errors import Damaged
from retentive.storage.sealed.keys import KEY_BYTES, NONCE_BYTES

TEXT_HEADER = b"\xffCPT\x01"  # invalid UTF-8, so it cannot begin a plain text; the last byte is the format
SEAL_HEADER = b"\xffCPS\x01"


class Unsealed(NamedTuple):
    """Content of a seal: hash and size of the text, and the provenance.

    The hash and the size are None for a deletion. `text_of` is the id of the version whose row contains the text. A
    version that only renamed the memory has no text of its own.
    """

    sha256: str | None = None
    size_bytes: int | None = None
    text_of: str | None = None
    provenance: str | None = None


class StoreKeys:
    """Keys of one memory store, and methods that encrypt and decrypt its data. Threads may share the object.

    All methods that decrypt raise `Damaged` if the data is missing, was modified, or belongs to something else.
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

    def seal_text(self, data: bytes, version_id: str) -> bytes:
        """Encrypt a text. The result can only be decrypted as the text of this version."""
        return self._encrypted(self._text, TEXT_HEADER, data, "text", version_id)

    def open_text(self, sealed: bytes | None, unsealed: Unsealed) -> bytes | None:
        """Decrypt the text that belongs to a seal. Returns None for a deletion."""
        if unsealed.text_of is None:
            if sealed is not None:
                raise Damaged("a deletion in an encrypted memory store must not have a text")
            return None
        data = self._decrypted(self._text, TEXT_HEADER, sealed, "the stored text", "text", unsealed.text_of)
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
