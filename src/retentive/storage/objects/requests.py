"""Requests to object storage. Every driver error is mapped to one of ours here."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

from retentive.errors import InvalidInput, PermissionDenied, RetentiveError, Unavailable
from retentive.storage.objects.driver import UNQUOTED_ETAG, Client, library

T = TypeVar("T")
PARALLEL = 16
BUSY = "too many others write to the memory store"
_FAILED = "the object storage cannot be reached, or failed"
_NO_BUCKET = "the bucket is not there"
_REFUSED = "the object storage does not let these credentials do it"
_IGNORES = "the object storage ignores conditions (If-Match, If-None-Match), so writers would overwrite each other"
_NEVER_SENT = re.compile(r"kind: Connect,")
_OUT_OF_RANGE = re.compile(r"[Ii]nvalid ?[Rr]ange|\b416\b|[Nn]ot [Ss]atisfiable")
_MEANINGS: list[tuple[str, type[RetentiveError], str]] = [
    (r"(?i)NoSuchBucket|ContainerNotFound|bucket does not exist", Unavailable, _NO_BUCKET),
    ("BadScheme", InvalidInput, "the endpoint speaks plain HTTP; add allow_http=true if that is meant"),
    (
        r"169\.254\.|token request|TokenRequest",  # instance metadata service
        PermissionDenied,
        "no credentials for the object storage were found in the environment",
    ),
    (r"40[13] (Forbidden|Unauthorized)", PermissionDenied, _REFUSED),
]


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


class _OutOfRange(Unavailable):
    """The object is shorter than the range to read."""


class _NotModified(Exception):
    """The object still has the tag."""


class Listed(NamedTuple):
    """An object in a listing."""

    key: str
    modified: datetime


class Requests:
    """Requests to one location. Threads may share it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.timeout_s = client.place.timeout_s  # longest time a command waits for the storage
        self._probing = threading.Lock()
        self._probed = client.is_known or client.place.quirk is not None
        self._unquoted = client.place.quirk == UNQUOTED_ETAG

    @property
    def _patient(self) -> Any:
        return self._client.patient

    def attempts(self, said: str = _FAILED) -> Iterator[None]:
        """Yield until the timeout of a command, then raise `Unavailable`."""
        deadline = time.monotonic() + self.timeout_s
        while time.monotonic() < deadline:
            yield
        raise Unavailable(said)

    def until_done(self, step: Callable[[], T]) -> T:
        """Result of `step`, called again while it raises `Taken` or `Unsure`. Raises `Unavailable`."""
        for _ in self.attempts():
            with suppress(Taken, Unsure):
                return step()
        raise AssertionError("unreachable")

    def get(self, key: str) -> tuple[bytes, Tag]:
        """Read an object and its tag. Raises `Missing`."""
        found = self.get_unless(key, None)
        assert found is not None
        return found

    def get_unless(self, key: str, tag: Tag | None) -> tuple[bytes, Tag] | None:
        """Read an object and its tag; None if it still has `tag`. Raises `Missing`."""
        options = None if tag is None or tag.e_tag is None else {"if_none_match": tag.e_tag}
        with suppress(_NotModified), _mapped():
            found = self._patient.get(key, options=options)
            return bytes(found.bytes()), Tag(found.meta["e_tag"], found.meta["version"])
        return None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a byte range; shorter or different bytes if the object was replaced. Raises `Missing`."""
        with suppress(_OutOfRange), _mapped():
            return bytes(self._patient.get_range(key, start=start, length=length))
        return b""

    def names(self, under: str, *, after: str | None = None) -> Iterator[Listed]:
        """List objects under a prefix in name order; `after` is a full key."""
        with _mapped():
            for part in self._patient.list(under, offset=after, chunk_size=1000):
                yield from [Listed(one["path"], one["last_modified"]) for one in part]

    def put(self, key: str, data: bytes) -> None:
        """Write an object that no other writer writes."""
        with _mapped(is_write=True):
            self._patient.put(key, data, use_multipart=False)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; missing ones are ignored."""
        for start in range(0, len(keys), 1000):
            part = list(keys[start : start + 1000])
            try:
                with _mapped():
                    self._patient.delete(part)
            except Missing:  # some clouds stop a bulk delete at the first missing object
                together([partial(self.delete, [key]) for key in part] if len(part) > 1 else [])

    def replace(self, key: str, data: bytes, tag: Tag | None) -> Tag:
        """Replace an object if it still has `tag`; None creates it. Raises `Taken` if it changed, `Unsure`."""
        self.probe()
        return self._put_if(key, data, "create" if tag is None else self._condition(tag, unquoted=self._unquoted))

    @staticmethod
    def _condition(tag: Tag, *, unquoted: bool) -> dict[str, str]:
        e_tag = tag.e_tag.strip('"') if unquoted and tag.e_tag is not None else tag.e_tag
        return {name: value for name, value in (("e_tag", e_tag), ("version", tag.version)) if value is not None}

    def _put_if(self, key: str, data: bytes, mode: object) -> Tag:
        store: Any = self._client.once
        try:
            made = store.put(key, data, mode=mode, use_multipart=False)
            return Tag(made["e_tag"], made["version"])
        except _driver_errors() as error:
            errors, text = library().exceptions, str(error)
            is_taken = isinstance(error, errors.AlreadyExistsError | errors.PreconditionError)
            if is_taken or "409 Conflict" in text:  # S3 on concurrent conditional writes: this one was not done
                raise Taken from None
            found = _meaning(error, is_write=True)
            raise Unsure if isinstance(found, Unavailable) and not _NEVER_SENT.search(text) else found from None

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
        if self._holds(key, "create"):
            raise InvalidInput(_IGNORES)
        wrong = tag._replace(e_tag='"00000000000000000000000000000000"')
        for unquoted in (False, True):
            if self._holds(key, self._condition(wrong, unquoted=unquoted)):
                raise InvalidInput(_IGNORES)
            if self._holds(key, self._condition(tag, unquoted=unquoted)):
                return unquoted
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
    return (library().exceptions.BaseError, OSError, ValueError)


@contextmanager
def _mapped(*, is_write: bool = False) -> Iterator[None]:
    """Context in which errors of the driver are raised as ours."""
    try:
        yield
    except _driver_errors() as error:
        raise _meaning(error, is_write=is_write) from None


def _meaning(error: Exception, *, is_write: bool) -> Exception:
    """Map a driver error to ours. The driver's text is dropped, since it has URLs and keys."""
    errors, text = library().exceptions, str(error)
    for pattern, kind, message in _MEANINGS:
        if re.search(pattern, text):
            return kind(message)
    if isinstance(error, errors.NotModifiedError):
        return _NotModified()
    if isinstance(error, errors.PermissionDeniedError | errors.UnauthenticatedError):
        return PermissionDenied(_REFUSED)
    if isinstance(error, FileNotFoundError):
        return Unavailable(_NO_BUCKET) if is_write else Missing()
    return (_OutOfRange if _OUT_OF_RANGE.search(text) else Unavailable)(_FAILED)


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
