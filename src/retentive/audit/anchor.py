"""Anchors: signed states of the audit log and of all versions, in a file that is kept away from the storage.

Anybody who can write to the storage can rewrite the audit log together with the versions, or replace both with an older
copy. Anchors make this detectable. Each line of an anchor file is one anchor: the head of the audit log, a keyed digest
of the settings and of each version recorded since the previous line, and a signature (HMAC-SHA256). Nobody without the
key can forge a line or use a digest to confirm a guessed text.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from retentive.audit.chain import Head, canonical
from retentive.errors import Damaged, InvalidInput, NotFound
from retentive.storage.contract import Snapshot, Version
from retentive.storage.disk import FILE_MODE, expanded, os_error, sync_directory
from retentive.values.records import to_us

KEY_BYTES = 32
LEAF_DIGITS = 32  # 128 bits, too many to search for a second text with the same keyed digest
_TEXTS = ("store", "time", "newest", "settings", "previous", "signature")
_KEY_PREFIX = "retentive-anchor-key:"


@dataclass(frozen=True, slots=True)
class AnchorKey:
    """Secret key that signs the lines of an anchor file."""

    secret: bytes

    def __repr__(self) -> str:
        return f"AnchorKey(id={self.id!r})"  # keys must not appear in logs

    @property
    def id(self) -> str:
        """Public identifier of the key, recorded in each line of the anchor file."""
        return hashlib.sha256(b"anchor key\0" + self.secret).hexdigest()[:16]

    @classmethod
    def create(cls, path: str) -> AnchorKey:
        """Write a random key to a new file that only its owner may read. Raises `InvalidInput` if the file exists."""
        key = cls(os.urandom(KEY_BYTES))
        if os.path.lexists(expanded(path)):
            raise InvalidInput("the key file already exists and is never overwritten; choose another file")
        _write(path, _KEY_PREFIX + base64.b64encode(key.secret).decode() + "\n", os.O_EXCL)
        return key

    @classmethod
    def read(cls, path: str) -> AnchorKey:
        """Read a key file. Raises `NotFound` if it does not exist, and `InvalidInput` if it contains no anchor key."""
        encoded = _content(path, "key file").strip()
        try:
            secret = base64.b64decode(encoded.removeprefix(_KEY_PREFIX), validate=True)
        except ValueError:
            secret = b""
        if not encoded.startswith(_KEY_PREFIX) or len(secret) != KEY_BYTES:
            raise InvalidInput("the file is not an anchor key; create one with `retentive admin audit key`")
        return cls(secret)

    def digest(self, value: object) -> str:
        """Return the HMAC-SHA256 of a value as canonical JSON, in hexadecimal."""
        return hmac.new(self.secret, canonical(value).encode(), hashlib.sha256).hexdigest()

    def leaves(self, snapshot: Snapshot, versions: Iterable[Version]) -> dict[str, str]:
        """Return a digest of the fields and the stored text of each version, by version id.

        If the text of a version cannot be read, its digest is `damaged`.
        """
        leaves: dict[str, str] = {}
        for version in versions:
            redacted = None if version.redacted_at is None else to_us(version.redacted_at)
            facts = [
                version.id, version.memory_id, version.operation, version.path, version.size_bytes, version.sha256,
                str(version.actor or ""), to_us(version.created_at), version.revision, redacted,
            ]  # fmt: skip
            try:
                data = snapshot.version(version.id)[1]
                text = None if data is None else hashlib.sha256(data).hexdigest()
                leaves[version.id] = self.digest(["version", *facts, text])[:LEAF_DIGITS]
            except (Damaged, NotFound, TypeError):  # SQLite returns values of a wrong type unchanged
                leaves[version.id] = "damaged"
        return leaves


@dataclass(frozen=True, slots=True)
class Anchor:
    """One line of an anchor file.

    `head` is the head of the audit log at `time`. `versions` has the versions that were recorded since the previous
    anchor of the store: it maps the id of each version to its digest. `newest` is the id of the newest version of the
    store. `settings` is a digest of the stored settings, or empty while their setting `audit` is off: changes then need
    no entry. `previous` is the signature of the previous anchor of the store, or empty in its first anchor.
    """

    store: str
    time: str
    head: Head
    versions: Mapping[str, str]
    newest: str
    settings: str
    previous: str
    signature: str = ""

    def body(self, key: AnchorKey) -> dict[str, object]:
        """Return the fields that the signature covers: all fields of the anchor except the signature."""
        named = {name: value for name, value in asdict(self).items() if name != "signature"}
        return named | {"key": key.id, "head": str(self.head)}


def read_anchors(path: str, key: AnchorKey, store: str, *, missing_ok: bool = False) -> list[Anchor]:
    """Read the anchors of a store from a file, oldest first.

    If the file does not exist, raises `NotFound`. With `missing_ok`, returns an empty list instead. Raises
    `InvalidInput` for a malformed file or a wrong key, and `Damaged` if a line was modified or removed.
    """
    if missing_ok and not os.path.lexists(expanded(path)):
        return []
    found: list[Anchor] = []
    for number, line in enumerate(_content(path, "anchor file").splitlines(), start=1):
        try:
            given = json.loads(line)
            versions = {str(version): str(leaf) for version, leaf in given["versions"].items()}
            texts = {name: str(given[name]) for name in _TEXTS}
            key_id, anchor = given["key"], Anchor(head=Head.parse(given["head"]), versions=versions, **texts)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InvalidInput(f"line {number} of the anchor file is not an anchor") from None
        if key_id != key.id:
            raise InvalidInput(f"line {number} of the anchor file was signed with a different key")
        if not hmac.compare_digest(anchor.signature, key.digest(anchor.body(key))):
            raise Damaged(f"line {number} of the anchor file was modified")
        if anchor.store == store:
            if anchor.previous != (found[-1].signature if found else ""):
                raise Damaged(f"a line is missing before line {number} of the anchor file")
            found.append(anchor)
    return found


def append_anchor(path: str, key: AnchorKey, anchor: Anchor) -> None:
    """Append an anchor to a file and sync the file to disk. The file is created if it does not exist."""
    _write(path, canonical(anchor.body(key) | {"signature": anchor.signature}) + "\n", os.O_APPEND)


def _write(path: str, text: str, flag: int) -> None:
    """Write a text to a file of the owner, which is created if it does not exist, and sync it to disk."""
    where = os.path.abspath(expanded(path))
    try:
        with os.fdopen(os.open(where, os.O_WRONLY | os.O_CREAT | flag, FILE_MODE), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(os.path.dirname(where))
    except OSError as error:
        raise os_error(error) from None


def _content(path: str, what: str) -> str:
    try:
        with open(expanded(path), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        raise NotFound(f"the {what} does not exist") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"the {what} is not a UTF-8 text file") from None
    except OSError as error:
        raise os_error(error) from None
