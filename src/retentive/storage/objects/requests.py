"""Requests to object storage. Every driver error is mapped to one of ours here."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

from retentive.errors import InvalidInput, PermissionDenied, RetentiveError, Unavailable
from retentive.storage.objects.driver import UNQUOTED_ETAG, Client, library

T = TypeVar("T")
PARALLEL = 16
BUSY = "too many others write to the memory store"
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist", re.IGNORECASE)
_REFUSED = re.compile(r"40[13] (Forbidden|Unauthorized)")
_NO_CREDENTIALS = re.compile(r"169\.254\.|token request|TokenRequest")  # instance metadata service
_OUT_OF_RANGE = re.compile(r"[Ii]nvalid ?[Rr]ange|\b416\b|[Nn]ot [Ss]atisfiable")
_NEVER_SENT = re.compile(r"kind: Connect,")
_IGNORES = "the object storage ignores conditions (If-Match, If-None-Match), so writers would overwrite each other"


class Tag(NamedTuple):
    """ETag and version id of one state of an object."""

    e_tag: str | None
    version: str | None


class Missing(Exception):
    """The object does not exist."""


class Taken(Exception):
    """The condition of a write failed: nothing was written."""


class Unsure(Exception):
    """A conditional write failed with an unknown result: it may have taken effect, or still may."""


class Listed(NamedTuple):
    """An object in a listing."""

    key: str
    modified: datetime


class Requests:
    """Requests to one location. Threads may share it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._probing = threading.Lock()
        self._probed = client.is_known or client.place.quirk is not None
        self._unquoted = client.place.quirk == UNQUOTED_ETAG

    @property
    def timeout_s(self) -> float:
        """Longest time a command waits for the storage."""
        return self._client.place.timeout_s

    def attempts(self, said: str = "the object storage cannot be reached, or failed") -> Iterator[None]:
        """Yield until the timeout of a command, then raise `Unavailable`."""
        deadline = time.monotonic() + self.timeout_s
        while time.monotonic() < deadline:
            yield
        raise Unavailable(said)

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, key: str) -> tuple[bytes, Tag]:
        """Read an object and its tag. Raises `Missing`."""
        found = self.get_unless(key, None)
        assert found is not None
        return found

    def get_unless(self, key: str, tag: Tag | None) -> tuple[bytes, Tag] | None:
        """Read an object and its tag; None if it still has `tag`. Raises `Missing`."""
        options = None if tag is None or tag.e_tag is None else {"if_none_match": tag.e_tag}
        store: Any = self._client.patient
        try:
            found = store.get(key, options=options)
            return bytes(found.bytes()), Tag(found.meta["e_tag"], found.meta["version"])
        except _driver_errors() as error:
            if isinstance(error, _errors().NotModifiedError):
                return None
            raise _meaning(error) from None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a byte range; shorter or different bytes if the object was replaced. Raises `Missing`."""
        store: Any = self._client.patient
        try:
            return bytes(store.get_range(key, start=start, length=length))
        except _driver_errors() as error:
            if _OUT_OF_RANGE.search(str(error)):
                return b""
            raise _meaning(error) from None

    def names(self, under: str, *, after: str | None = None) -> Iterator[Listed]:
        """List objects under a prefix in name order; `after` is a full key."""
        store: Any = self._client.patient
        try:
            for part in store.list(under, offset=after, chunk_size=1000):
                yield from [Listed(one["path"], one["last_modified"]) for one in part]
        except _driver_errors() as error:
            raise _meaning(error) from None

    # -- writing ---------------------------------------------------------------------------------------------

    def put(self, key: str, data: bytes) -> None:
        """Write an object that no other writer writes."""
        store: Any = self._client.patient
        try:
            store.put(key, data, use_multipart=False)
        except _driver_errors() as error:
            raise _meaning_of_write(error) from None

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; missing ones are ignored."""
        store: Any = self._client.patient
        for start in range(0, len(keys), 1000):
            part = list(keys[start : start + 1000])
            try:
                store.delete(part)
            except FileNotFoundError:  # some clouds stop a bulk delete at the first missing object
                together([partial(self.delete, [key]) for key in part] if len(part) > 1 else [])
            except _driver_errors() as error:
                raise _meaning(error) from None

    def replace(self, key: str, data: bytes, tag: Tag | None) -> Tag:
        """Replace an object if it still has `tag`; None creates it. Raises `Taken` if it changed, `Unsure`."""
        self.probe()
        return self._put_if(key, data, "create" if tag is None else self._condition(tag, unquoted=self._unquoted))

    def _condition(self, tag: Tag, *, unquoted: bool) -> dict[str, str]:
        e_tag = tag.e_tag.strip('"') if unquoted and tag.e_tag is not None else tag.e_tag
        return {name: value for name, value in (("e_tag", e_tag), ("version", tag.version)) if value is not None}

    def _put_if(self, key: str, data: bytes, mode: object) -> Tag:
        store: Any = self._client.once
        try:
            made = store.put(key, data, mode=mode, use_multipart=False)
            return Tag(made["e_tag"], made["version"])
        except _driver_errors() as error:
            errors = _errors()
            if isinstance(error, errors.AlreadyExistsError | errors.PreconditionError):
                raise Taken from None
            if "409 Conflict" in str(error):  # S3 on concurrent conditional writes: this one was not done
                raise Taken from None
            found = _meaning_of_write(error)
            if isinstance(found, Unavailable) and not _NEVER_SENT.search(str(error)):
                raise Unsure from None
            raise found from None

    # -- what a server can do --------------------------------------------------------------------------------

    def probe(self) -> None:
        """Check once that the endpoint honours conditional writes. Raises `InvalidInput` if it ignores them."""
        if self._probed:
            return
        with self._probing:
            if not self._probed:
                key = f"probe/{os.urandom(8).hex()}"
                try:
                    self._unquoted = self._probe(key)
                except Unsure:
                    raise Unavailable("the object storage did not answer") from None
                finally:
                    with suppress(RetentiveError):  # the probe's result matters more than its leftover object
                        self.delete([key])
                self._probed = True

    def _probe(self, key: str) -> bool:
        """True if the server expects ETags without quotes (Ceph RGW 16)."""
        tag = self._put_if(key, b"1", "create")
        wrong = tag._replace(e_tag='"00000000000000000000000000000000"')
        if self._holds(key, "create") or self._holds(key, self._condition(wrong, unquoted=False)):
            raise InvalidInput(_IGNORES)
        if self._holds(key, self._condition(tag, unquoted=False)):
            return False
        if self._holds(key, self._condition(wrong, unquoted=True)):
            raise InvalidInput(_IGNORES)
        if self._holds(key, self._condition(tag, unquoted=True)):
            return True
        raise InvalidInput("the object storage refuses conditional writes (If-Match), which are needed")

    def _holds(self, key: str, mode: object) -> bool:
        try:
            self._put_if(key, b"2", mode)
        except Taken:
            return False
        return True


@cache
def _driver_errors() -> tuple[type[Exception], ...]:
    """Errors that obstore raises for failures outside this process."""
    return (_errors().BaseError, OSError, ValueError)


def _errors() -> Any:
    return library().exceptions


def _meaning(error: Exception) -> Exception:
    """Map a driver error to ours. The driver's text is dropped, since it has URLs and keys."""
    if isinstance(error, RetentiveError):
        return error
    errors, text = _errors(), str(error)
    if _NO_BUCKET.search(text):
        return Unavailable("the bucket is not there")
    if "BadScheme" in text:
        return InvalidInput("the endpoint speaks plain HTTP; add allow_http=true if that is meant")
    if _NO_CREDENTIALS.search(text):
        return PermissionDenied("no credentials for the object storage were found in the environment")
    if isinstance(error, errors.PermissionDeniedError | errors.UnauthenticatedError) or _REFUSED.search(text):
        return PermissionDenied("the object storage does not let these credentials do it")
    if isinstance(error, FileNotFoundError):
        return Missing()
    return Unavailable("the object storage cannot be reached, or failed")


def _meaning_of_write(error: Exception) -> Exception:
    """Like `_meaning`; on a write, "not found" means that the bucket is missing."""
    found = _meaning(error)
    return Unavailable("the bucket is not there") if isinstance(found, Missing) else found


# -- several at once -----------------------------------------------------------------------------------------


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run calls, up to 16 in parallel; raises the first error after all have finished. Do not nest."""
    if len(calls) < 2:
        return [call() for call in calls]
    futures = [_threads().submit(call) for call in calls]
    wait(futures)
    return [future.result() for future in futures]


@cache
def _threads() -> ThreadPoolExecutor:
    """One thread pool for the process, so that threads do not grow with stores."""
    return ThreadPoolExecutor(PARALLEL, thread_name_prefix="retentive-objects")
