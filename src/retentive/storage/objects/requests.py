"""The requests a memory store makes of object storage, and what their failures mean. No driver's error gets out."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

from retentive.errors import InvalidInput, PermissionDenied, RetentiveError, Unavailable
from retentive.storage.objects.driver import UNQUOTED_ETAG, Client, library

T = TypeVar("T")
PARALLEL = 16
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist", re.IGNORECASE)
_REFUSED = re.compile(r"40[13] (Forbidden|Unauthorized)")
_NO_CREDENTIALS = re.compile(r"169\.254\.|token request|TokenRequest")  # asked of the machine, as the last resort
_NEVER_SENT = re.compile(r"kind: Connect,")
_IGNORES = "the object storage ignores conditions (If-Match, If-None-Match), so writers would overwrite each other"


class Tag(NamedTuple):
    """Which state of an object this is."""

    e_tag: str | None
    version: str | None


class Missing(Exception):
    """There is no such object."""


class Taken(Exception):
    """The condition of a write does not hold: nothing was written."""


class Unsure(Exception):
    """A conditional write failed in a way that does not tell whether it was, or will be, done."""


class Listed(NamedTuple):
    """An object in a listing."""

    key: str
    modified: datetime


class Requests:
    """Requests to one place. Threads may share it, and so may the sides of a fork."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._probing = threading.Lock()
        self._probed = client.is_known or client.place.quirk is not None
        self._unquoted = client.place.quirk == UNQUOTED_ETAG

    @property
    def timeout_s(self) -> float:
        """How long a command may wait for the storage."""
        return self._client.place.timeout_s

    def forget_threads(self) -> None:
        """In a forked child."""
        self._probing = threading.Lock()
        self._client.forget_threads()

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, key: str) -> tuple[bytes, Tag]:
        """An object with its tag. Raises `Missing`."""
        found = self.get_unless(key, None)
        assert found is not None
        return found

    def get_unless(self, key: str, tag: Tag | None) -> tuple[bytes, Tag] | None:
        """An object with its tag, None if the tag is still its. Raises `Missing`."""
        options = None if tag is None or tag.e_tag is None else {"if_none_match": tag.e_tag}
        store: Any = self._client.patient
        try:
            found = store.get(key, options=options)
            return bytes(found.bytes()), Tag(found.meta["e_tag"], found.meta["version"])
        except _driver_errors() as error:
            if isinstance(error, _errors().NotModifiedError):
                return None
            _raise_for(error)

    def names(self, under: str, *, after: str | None = None) -> Iterator[Listed]:
        """What lies under a prefix, in the order of the names; `after` is a whole key."""
        store: Any = self._client.patient
        try:
            for part in store.list(under, offset=after, chunk_size=1000):
                yield from [Listed(one["path"], one["last_modified"]) for one in part]
        except _driver_errors() as error:
            _raise_for(error)

    # -- writing ---------------------------------------------------------------------------------------------

    def put(self, key: str, data: bytes) -> None:
        """Write an object that nobody else writes."""
        store: Any = self._client.patient
        try:
            store.put(key, data, use_multipart=False)
        except _driver_errors() as error:
            raise _meaning_of_write(error) from None

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects, if they are there."""
        store: Any = self._client.patient
        for start in range(0, len(keys), 1000):
            try:
                store.delete(list(keys[start : start + 1000]))
            except FileNotFoundError:  # of several, some clouds stop at the first
                together([partial(self._delete_one, key) for key in keys[start : start + 1000]])
            except _driver_errors() as error:
                _raise_for(error)

    def _delete_one(self, key: str) -> None:
        store: Any = self._client.patient
        try:
            store.delete(key)
        except FileNotFoundError:
            return
        except _driver_errors() as error:
            _raise_for(error)

    def put_new(self, key: str, data: bytes) -> Tag:
        """Write an object that is not there. Raises `Taken` if it is, `Unsure`."""
        self.probe()
        return self._put_if(key, data, "create")

    def replace(self, key: str, data: bytes, tag: Tag) -> Tag:
        """Write an object over the state with this tag. Raises `Taken` if it has another by now, `Unsure`."""
        self.probe()
        return self._put_if(key, data, self._condition(tag, unquoted=self._unquoted))

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
            if "409 Conflict" in str(error):  # S3, when two conditional writes meet: neither this one was done
                raise Taken from None
            found = _meaning_of_write(error)
            if isinstance(found, Unavailable) and not _NEVER_SENT.search(str(error)):
                raise Unsure from None
            raise found from None

    # -- what a server can do --------------------------------------------------------------------------------

    def probe(self) -> None:
        """Try once per process what an endpoint makes of conditions. Raises `InvalidInput` if it ignores them."""
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
                    with suppress(RetentiveError):  # what it found out counts more than what it leaves
                        self._delete_one(key)
                self._probed = True

    def _probe(self, key: str) -> bool:
        """Whether ETags have to be sent without quotes (Ceph RGW 16)."""
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


def _driver_errors() -> tuple[type[Exception], ...]:
    """What obstore raises for what goes wrong outside of this process."""
    return (_errors().BaseError, OSError, ValueError)


def _errors() -> Any:
    return library().exceptions


def _raise_for(error: Exception) -> NoReturn:
    raise _meaning(error) from None


def _meaning(error: Exception) -> Exception:
    """What an error of the driver is to a caller. Its text names URLs and keys, so none of it is kept."""
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
    """As `_meaning`; nothing to be found means that there is no place to write to."""
    found = _meaning(error)
    return Unavailable("the bucket is not there") if isinstance(found, Missing) else found


# -- several at once -----------------------------------------------------------------------------------------

_pool: ThreadPoolExecutor | None = None
_making = threading.Lock()


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What all calls give, up to 16 made at a time; when all are done, raises the first error. Not from within one."""
    if len(calls) < 2:
        return [call() for call in calls]
    futures = [_threads().submit(call) for call in calls]
    wait(futures)
    return [future.result() for future in futures]


def _threads() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603 - one for the process, so that many stores do not mean many threads
    with _making:
        if _pool is None:
            _pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="retentive-objects")
        return _pool


def _forked() -> None:
    global _pool, _making
    _pool, _making = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def within(deadline: float) -> bool:
    """Whether there is time left before a deadline of `time.monotonic`."""
    return time.monotonic() < deadline
