"""Encryption and decryption of texts, seals and names of one memory store. A seal is the encrypted metadata of a row.

The cipher is AES-256-GCM with random 96-bit nonces. The unencrypted fields of a row (store, memory, version, path) are
the associated data of its seal. The seal has the hash of the text, and the id of the version that contains this text.
Therefore, a row that was moved, swapped, renamed or truncated cannot be decrypted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from retentive.errors import Damaged
from retentive.storage.contract import Kept
from retentive.storage.sealed.keys import KEY_BYTES, NONCE_BYTES
from retentive.values.paths import ROOT

TEXT_HEADER = b"\xffCPT\x01"  # invalid UTF-8, so it cannot begin a plain text; the last byte is the format
SEAL_HEADER = b"\xffCPS\x01"
_TEXT_START = len(TEXT_HEADER) + NONCE_BYTES
_SEAL_START = len(SEAL_HEADER) + NONCE_BYTES
_RECORD = struct.Struct(">B32sQH")  # 1 if there is a text, its sha256, its size, length of its version id
_NO_TEXT = _RECORD.pack(False, b"", 0, 0)
_NAME_BYTES = 16
_MAX_KNOWN = 20_000  # decrypted seals in the cache, about 600 bytes each


class Unsealed(NamedTuple):
    """Content of a seal: hash and size of the text, the real path if paths are encrypted, and the provenance.

    The hash and the size are None for a deletion. `text_of` is the id of the version whose row contains the text. A
    version that only renamed the memory has no text of its own.
    """

    sha256: str | None = None
    size_bytes: int | None = None
    text_of: str | None = None
    path: str | None = None
    provenance: str | None = None


class StoreKeys:
    """Keys of one memory store, and methods that encrypt and decrypt its data. Threads may share the object."""

    def __init__(self, data_key: bytes, store_id: str, *, seal_paths: bool) -> None:
        self.seal_paths = seal_paths
        self._store_id = store_id
        self._text = AESGCM(_derived(data_key, b"text"))
        self._seal = AESGCM(_derived(data_key, b"seal"))
        self._naming = _derived(data_key, b"names")
        self._known: dict[bytes, tuple[bytes, Unsealed]] = {}
        self._paths: dict[str, str] = {}
        self._metadata: dict[str, tuple[str, str]] = {}  # encrypted and decrypted form, by name

    def seal_metadata(self, name: str, text: str | None) -> str | None:
        """Encrypt the `settings` or `properties` of the store. Returns base64."""
        return None if text is None else self._encrypted(text, self._bound_metadata(name))

    def open_metadata(self, name: str, sealed: str | None) -> str | None:
        """Decrypt the `settings` or `properties` of the store. Raises `Damaged`."""
        if sealed is None:
            return None
        known = self._metadata.get(name)
        if known is None or sealed != known[0]:
            opened = self._decrypted(sealed, self._bound_metadata(name), f"the stored {name} were modified")
            known = self._metadata[name] = sealed, opened
        return known[1]

    def seal_record(self, kind: str, key: str, value: str) -> str:
        """Encrypt the value of a record or side record. Returns base64."""
        return self._encrypted(value, self._bound_record(kind, key))

    def open_record(self, kind: str, key: str, sealed: str) -> str:
        """Decrypt the value of a record or side record.

        Raises `Damaged` if the value was modified or belongs to another record.
        """
        damage = "the stored record was modified or belongs to another key"
        return self._decrypted(sealed, self._bound_record(kind, key), damage)

    def _encrypted(self, text: str, bound: bytes) -> str:
        nonce = os.urandom(NONCE_BYTES)
        return base64.b64encode(nonce + self._seal.encrypt(nonce, text.encode(), bound)).decode()

    def _decrypted(self, sealed: str, bound: bytes, damage: str) -> str:
        try:
            data = base64.b64decode(sealed, validate=True)
            return self._seal.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound).decode()
        except (InvalidTag, ValueError):
            raise Damaged(f"decryption failed: {damage}") from None

    def _bound_record(self, kind: str, key: str) -> bytes:
        return f"record 1\0{self._store_id}\0{kind}\0{key}".encode()

    def _bound_metadata(self, name: str) -> bytes:
        return f"{name}|{self._store_id}".encode()

    def seal_text(self, data: bytes, version_id: str) -> bytes:
        """Encrypt a text. The result can only be decrypted as the text of this version."""
        nonce = os.urandom(NONCE_BYTES)
        return TEXT_HEADER + nonce + self._text.encrypt(nonce, data, self._bound_text(version_id))

    def open_text(self, sealed: bytes | None, unsealed: Unsealed) -> bytes | None:
        """Decrypt the text that belongs to a seal. Returns None for a deletion.

        Raises `Damaged` if the text was modified or belongs to another version.
        """
        if unsealed.text_of is None:
            if sealed is not None:
                raise Damaged("a deletion in an encrypted memory store must not have a text")
            return None
        if not isinstance(sealed, bytes) or not sealed.startswith(TEXT_HEADER):
            raise Damaged("a text in an encrypted memory store is missing or not encrypted")
        view = memoryview(sealed)
        nonce, rest = view[len(TEXT_HEADER) : _TEXT_START], view[_TEXT_START:]
        try:
            data = self._text.decrypt(nonce, rest, self._bound_text(unsealed.text_of))
        except (InvalidTag, ValueError):
            raise Damaged("decryption failed: the stored text was modified or belongs to another version") from None
        if len(data) != unsealed.size_bytes:
            raise Damaged("the size of a decrypted text differs from the size in its encrypted metadata")
        return data

    def _bound_text(self, version_id: str) -> bytes:
        return f"text 1\0{self._store_id}\0{version_id}".encode("utf-8", "surrogatepass")

    def keep_text(self, data: bytes, memory_id: str, version_id: str, named: Unsealed, hidden_path: str) -> Kept:
        """Encrypt a new text and its metadata. Returns what the inner backend stores.

        `named` has the real path and the provenance. `hidden_path` is the path that the inner backend uses.
        """
        digest = hashlib.sha256(data).hexdigest()
        path = named.path if self.seal_paths else None
        unsealed = Unsealed(digest, len(data), version_id, path, named.provenance)
        return Kept(self.seal_text(data, version_id), "", self.seal(unsealed, memory_id, version_id, hidden_path))

    def seal(self, unsealed: Unsealed, memory_id: str, version_id: str, hidden_path: str) -> bytes:
        """Encrypt the metadata of a version. `hidden_path` is the path that the inner backend uses."""
        digest, size, text_of, path, provenance = unsealed
        if text_of is None:
            record = _NO_TEXT
        else:
            text_id = text_of.encode()
            record = _RECORD.pack(True, bytes.fromhex(digest or ""), size or 0, len(text_id)) + text_id
        if path is not None:
            record += path.encode("utf-8", "surrogatepass")
        if provenance is not None:
            record += b"\0" + provenance.encode()  # a path has no NUL
        nonce = os.urandom(NONCE_BYTES)
        bound = self._bound(memory_id, version_id, hidden_path)
        seal = SEAL_HEADER + nonce + self._seal.encrypt(nonce, record, bound)
        self._remember(seal, bound, unsealed)  # the next command usually reads this version
        return seal

    def open_seal(self, seal: bytes | None, memory_id: str, version_id: str, hidden_path: str) -> Unsealed:
        """Decrypt the metadata of a version.

        Raises `Damaged` if the metadata is missing, was modified, or belongs to another version.
        """
        if not isinstance(seal, bytes) or not seal.startswith(SEAL_HEADER):
            raise Damaged("a memory or version in an encrypted memory store has no encrypted metadata")
        bound = self._bound(memory_id, version_id, hidden_path)
        known = self._known.get(seal)
        if known is not None and known[0] == bound:
            return known[1]
        try:
            record = self._seal.decrypt(seal[len(SEAL_HEADER) : _SEAL_START], seal[_SEAL_START:], bound)
        except (InvalidTag, ValueError):
            damage = "the encrypted metadata of this version was modified or belongs to another version"
            raise Damaged(f"decryption failed: {damage}") from None
        unsealed = self._unpacked(record)
        self._remember(seal, bound, unsealed)
        return unsealed

    def _remember(self, seal: bytes, bound: bytes, unsealed: Unsealed) -> None:
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[seal] = bound, unsealed

    def _unpacked(self, record: bytes) -> Unsealed:
        has_text, digest, size, length = _RECORD.unpack_from(record)
        end = _RECORD.size + length
        path_bytes, has_provenance, rest = record[end:].partition(b"\0")
        path = path_bytes.decode("utf-8", "surrogatepass") if self.seal_paths else None
        provenance = rest.decode() if has_provenance else None
        if not has_text:
            return Unsealed(path=path, provenance=provenance)
        return Unsealed(digest.hex(), size, record[_RECORD.size : end].decode(), path, provenance)

    def _bound(self, memory_id: str, version_id: str, hidden_path: str) -> bytes:
        # Ids and paths contain no NUL, so different rows have different associated data.
        text = f"seal 1\0{self._store_id}\0{memory_id}\0{version_id}\0{hidden_path}"
        return text.encode("utf-8", "surrogatepass")

    def hidden(self, path: str) -> str:
        """Return the path that the inner backend uses for a real path. Both are the same unless paths are encrypted."""
        if not self.seal_paths:
            return path
        hidden = self._paths.get(path)
        if hidden is None:
            if len(self._paths) >= _MAX_KNOWN:
                self._paths.clear()
            hidden = self._paths[path] = self._hidden(path)
        return hidden

    def _hidden(self, path: str) -> str:
        parts = [ROOT]
        end = len(ROOT)
        while end < len(path):
            end = path.find("/", end + 1)
            end = len(path) if end < 0 else end
            parts.append(self._name(path[:end]))
        return "/".join(parts)

    def _name(self, path: str) -> str:
        """Return the name that the inner backend uses for the last segment of a real path.

        The name is a keyed hash of the whole path. Each store has its own key for this purpose.
        """
        digest = hmac.digest(self._naming, path.encode("utf-8", "surrogatepass"), "sha256")[:_NAME_BYTES]
        return base64.b32encode(digest).decode().rstrip("=").lower()


def _derived(data_key: bytes, use: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=b"retentive 1 " + use).derive(data_key)
