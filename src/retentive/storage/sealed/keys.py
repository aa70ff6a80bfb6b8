"""Key-encryption keys. They wrap (encrypt) the data keys of encrypted memory stores.

A `KeyRing` has keys from a file or from the environment. Any other `KeyWrapper` can use a key service. If the
key-encryption keys are lost, the memories can never be read again.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext, suppress
from typing import Protocol, TypeVar, runtime_checkable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from retentive.errors import InvalidInput, Locked, NotFound, RetentiveError, Unavailable
from retentive.storage.contract import plain_name
from retentive.storage.disk import FILE_MODE, expanded, os_error, sync_directory
from retentive.storage.lock_file import writers_lock

KEY_BYTES = 32
NONCE_BYTES = 12  # 96 bits, the recommended size for AES-GCM (NIST SP 800-38D, 5.2.1.1)
KEYS_VARIABLE, FILE_VARIABLE = "RETENTIVE_KEYS", "RETENTIVE_KEYS_FILE"
# Windows has neither flag. Opening a pipe must not block.
_READING = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
NOT_HERE = "the key of the encrypted memory store is not available"
T = TypeVar("T")
_KEY = re.compile(r"[A-Za-z0-9+/_-]{43}=?|[0-9a-fA-F]{64}")  # 32 bytes


@runtime_checkable
class KeyWrapper(Protocol):
    """Wraps (encrypts) and unwraps (decrypts) data keys of 32 bytes. Threads may share the object.

    A wrapped key can only be unwrapped with the same `context`. `unwrap` raises `Locked` if the key cannot be
    unwrapped. Both methods raise `Unavailable` if a key service does not respond.
    """

    @property
    def current_id(self) -> str:
        """Id of the key-encryption key that wraps new data keys."""

    def wrap(self, data_key: bytes, context: bytes) -> tuple[str, bytes]:
        """Wrap a data key. Returns the id of the key-encryption key, and the wrapped data key."""

    def unwrap(self, kek_id: str, wrapped: bytes, context: bytes) -> bytes:
        """Unwrap a data key that was wrapped with the key-encryption key `kek_id`."""


class KeyRing:
    """Key-encryption keys by id, and the id of the current key, which wraps new data keys.

    A key ring from a file reads the file again when it needs the current key or an unknown one.
    """

    def __init__(self, current: str, keys: Mapping[str, bytes], *, path: str | None = None) -> None:
        self._ring = _checked(current, dict(keys))
        self._path = path

    @classmethod
    def new(cls) -> KeyRing:
        """Return a key ring with one new random key."""
        key_id = _new_id()
        return cls(key_id, {key_id: os.urandom(KEY_BYTES)})

    @classmethod
    def from_text(cls, text: str) -> KeyRing:
        """Parse JSON: {"current": id, "keys": {id: base64 of 32 bytes}}."""
        return cls(*_parsed(text))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> KeyRing:
        """Read a key file. Raises `NotFound` if the file does not exist.

        Raises `InvalidInput` if the file is invalid, or if users other than its owner have access to it.
        """
        absolute = _absolute(path)
        return cls(*_parsed(_read(absolute)), path=absolute)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> KeyRing | None:
        """Read the keys from RETENTIVE_KEYS (JSON) or RETENTIVE_KEYS_FILE (the path of a key file).

        Returns None if neither variable is set.
        """
        text, path = environ.get(KEYS_VARIABLE), environ.get(FILE_VARIABLE)
        if text and path:
            raise InvalidInput(f"both {KEYS_VARIABLE} and {FILE_VARIABLE} are set; set only one of them")
        if text:
            return cls.from_text(text)
        return cls.from_file(path) if path else None

    @property
    def current_id(self) -> str:
        """Id of the key that wraps new data keys."""
        return self._newest()[0]

    def to_text(self) -> str:
        """Return the key ring as JSON. It contains the secret keys."""
        current, keys = self._ring
        written = {key_id: base64.b64encode(key).decode() for key_id, key in keys.items()}
        return json.dumps({"current": current, "keys": written}, indent=2) + "\n"

    def wrap(self, data_key: bytes, context: bytes) -> tuple[str, bytes]:
        """Wrap a data key with the current key. Returns the id of the current key, and the wrapped data key."""
        current, keys = self._newest()
        nonce = os.urandom(NONCE_BYTES)
        return current, nonce + AESGCM(keys[current]).encrypt(nonce, data_key, context)

    def unwrap(self, kek_id: str, wrapped: bytes, context: bytes) -> bytes:
        """Unwrap a data key. Raises `Locked` if the wrapping key is missing or wrong."""
        if kek_id not in self._ring[1]:
            with suppress(NotFound, InvalidInput):  # a missing or invalid key file has no new keys
                self._newest()
        key = self._ring[1].get(kek_id)
        if key is None:
            raise Locked(NOT_HERE)
        try:
            return AESGCM(key).decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], context)
        except (InvalidTag, ValueError):
            raise Locked(
                "the encryption key for the memory store is wrong, or the wrapped data key of the store was modified"
            ) from None

    def _newest(self) -> tuple[str, dict[str, bytes]]:
        """Return the keys. A key file is read again, because another process may have added a key."""
        if self._path is not None:
            self._ring = _parsed(_read(self._path))
        return self._ring


def add_key(path: str | os.PathLike[str]) -> str:
    """Add a new key to the key file, make it current, and return its id. Creates the file if it does not exist.

    The old keys are kept. The file is synced to disk before the function returns. Several processes can add keys at the
    same time, except on Windows.
    """
    absolute, key_id = _absolute(path), _new_id()
    lock = writers_lock(os.path.dirname(absolute))
    try:
        with nullcontext() if lock is None else closing(lock):
            if lock is not None:
                lock.acquire()
            keys = _parsed(_read(absolute))[1] if os.path.lexists(absolute) else {}
            _replace(absolute, KeyRing(key_id, keys | {key_id: os.urandom(KEY_BYTES)}).to_text())
    except OSError as error:
        raise os_error(error) from None
    return key_id


def call_wrapper(call: Callable[[], T]) -> T:
    """Call a key wrapper of the application. Replaces its exceptions with `Unavailable`, except errors of retentive."""
    try:
        return call()
    except RetentiveError:
        raise
    except Exception as error:
        raise Unavailable("the key service failed") from error


def as_wrapper(keys: str | os.PathLike[str] | KeyWrapper) -> KeyWrapper:
    """Return the given key wrapper. If a path is given, read the key file and return its key ring."""
    if isinstance(keys, str | os.PathLike):
        return KeyRing.from_file(keys)
    if not isinstance(keys, KeyWrapper):
        raise InvalidInput("`keys` must be the path of a key file, a KeyRing, or an object with wrap and unwrap")
    return keys


def _new_id() -> str:
    return f"key_{time.strftime('%Y%m%d', time.gmtime())}_{os.urandom(4).hex()}"


def _parsed(text: str) -> tuple[str, dict[str, bytes]]:
    try:
        given = json.loads(text)
        keys = {
            plain_name("a key id", key_id): base64.b64decode(key, validate=True)
            for key_id, key in given["keys"].items()
        }
        current = given["current"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error):
        raise InvalidInput("the keys are not in the JSON format that `retentive admin encryption new` writes") from None
    return _checked(current, keys)


def _checked(current: str, keys: dict[str, bytes]) -> tuple[str, dict[str, bytes]]:
    if current not in keys or any(len(key) != KEY_BYTES for key in keys.values()):
        raise InvalidInput(f"each key must have {KEY_BYTES} bytes, and the current key must be one of the keys")
    return current, keys


def _absolute(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a key file. Raises `InvalidInput` for keys in place of a path.

    A file with such a name would show the key in every listing of its directory.
    """
    text = os.fspath(path)
    if text.lstrip().startswith("{") or _KEY.fullmatch(text):
        raise InvalidInput(f"this is a key, not the path of a key file; pass the path, or the keys in {KEYS_VARIABLE}")
    return os.path.abspath(expanded(path))


def _read(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | _READING)
    except FileNotFoundError:
        raise NotFound("the key file does not exist; `retentive admin encryption new` creates one") from None
    except OSError as error:
        raise os_error(error) from None
    with os.fdopen(descriptor, encoding="utf-8", errors="surrogateescape") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInput("the key file must be a regular file")
        if sys.platform != "win32" and status.st_mode & 0o077:
            raise InvalidInput("only the owner may have access to the key file: run chmod 600 on it")
        return file.read()


def _replace(path: str, text: str) -> None:
    """Replace a file atomically and durably. Raises OSError."""
    scratch = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), FILE_MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(scratch, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise
    sync_directory(os.path.dirname(path))
