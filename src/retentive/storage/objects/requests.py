"""Requests to object storage through the driver obstore. Its errors are converted to exceptions of this library.

obstore starts threads with the first request of a process. A forked child does not inherit these threads, so its
requests would hang. If the parent has made a request before the fork, every request of the child therefore raises
`InvalidInput`. Otherwise the child may use object storage.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache, partial
from types import ModuleType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from retentive.errors import InvalidInput, PermissionDenied, RetentiveError, Unavailable
from retentive.values.unreachable import why_unreachable

T = TypeVar("T")
BUSY = "too many other writers change the memory store at the same time"
_FAILED = "the object storage cannot be reached, or its reply was an error"
_NO_BUCKET = "the bucket does not exist"
_NO_CREDENTIALS = "no credentials for the object storage were found in the environment"
_REFUSED = "the object storage refuses the credentials, or they lack a permission that retentive needs"
_IGNORES = "the object storage ignores conditions (If-Match, If-None-Match), so writers would overwrite each other"
_NEVER_SENT = re.compile(r"kind: Connect,")
# The text of an error also contains the URL and times, which can contain any number. So each pattern contains words.
_OUT_OF_RANGE = re.compile(r"status code: 416\b|<Code>InvalidRange<|Invalid range: Wanted")
_MEANINGS: list[tuple[str, type[RetentiveError], str]] = [
    (r"(?i)NoSuchBucket|ContainerNotFound|bucket does not exist", Unavailable, _NO_BUCKET),
    ("BadScheme", InvalidInput, "the endpoint uses plain HTTP; add the option allow_http=true to permit this"),
    (r"://169\.254\.|token request|TokenRequest", PermissionDenied, _NO_CREDENTIALS),  # instance metadata service
    (r"40[13] (Forbidden|Unauthorized)", PermissionDenied, _REFUSED),
]
_FORKED = (
    "object storage was opened before this process was forked: open the location after the fork, in a process whose "
    "parent has not used object storage, or start processes with spawn"
)
_RETRIES = 3
_CONFIG = {  # names of the URL options, and obstore's names for them
    "s3": {"endpoint": "endpoint", "region": "region"},
    "gs": {"endpoint": "base_url"},
    "az": {"account": "account_name", "endpoint": "endpoint"},
    "memory": {},
}
_CLASSES = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}
_SECONDS = re.compile(r"\d*\.?\d+")
_ENDPOINTS = {"endpoint", "base_url"}
_ENDPOINT = re.compile(r"(AWS|AZURE|GOOGLE)_.*(ENDPOINT|BASE_URL)")


@cache
def library() -> ModuleType:
    """Return the module obstore. It is imported when it is first used, because the import is slow."""
    import obstore.exceptions  # noqa: PLC0415 - see above
    import obstore.store  # noqa: PLC0415 - see above

    return obstore


_used_by: int | None = None
_memories: dict[str, Any] = {}


def check_process(opened_in: int | None) -> None:
    """Raise `InvalidInput` if a process other than this one opened the object storage.

    `opened_in` is the id of the process that opened it, or None if no process has opened it yet.
    """
    if opened_in is not None and os.getpid() != opened_in:
        raise InvalidInput(_FORKED)


def _parsed(url: str) -> tuple[str, str, dict[str, Any], float]:
    """Parse and validate the URL of a location in object storage, such as `s3://bucket/prefix?option=value`.

    Returns the scheme, the bucket, the options of the driver, and the timeout of a command. Raises `InvalidInput` with
    a message that names the valid values.
    """
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise InvalidInput("invalid URL: use a form such as s3://bucket/prefix?region=eu-central-1") from None
    scheme, bucket, prefix = parts.scheme, unquote(parts.netloc), unquote(parts.path).strip("/") or None
    if scheme not in _CONFIG:
        schemes = ", ".join(f"{one}://" for one in _CONFIG)
        raise InvalidInput(f"unknown scheme {scheme!r}: an object storage URL starts with one of {schemes}")
    if "@" in parts.netloc:
        raise InvalidInput("the URL contains credentials; set them in the environment instead")
    known = [*_CONFIG[scheme], *(["allow_http"] if scheme != "memory" else []), "timeout_s"]
    for name in options:
        if name not in known:
            raise InvalidInput(f"unknown option {name[:40]!r} of {scheme}://; choose from {', '.join(known)}")
    if scheme != "memory" and not bucket:
        raise InvalidInput(f"the URL has no bucket; use {scheme}://bucket/prefix")
    allow_http = options.get("allow_http", "false")
    if allow_http not in {"true", "false"}:
        raise InvalidInput("the option `allow_http` must be true or false")
    timeout = options.get("timeout_s", "30")
    if not _SECONDS.fullmatch(timeout) or not 0 < float(timeout) <= 3600:
        raise InvalidInput("the option `timeout_s` must be a number of seconds, at most 3600")
    config = {key: options[name] for name, key in _CONFIG[scheme].items() if name in options}
    options_of_driver: dict[str, Any] = {"prefix": prefix} | config
    if scheme != "memory":
        timeouts = {"timeout": timedelta(seconds=float(timeout) / 3), "connect_timeout": timedelta(seconds=5)}
        options_of_driver["client_options"] = timeouts | ({"allow_http": True} if allow_http == "true" else {})
    return scheme, bucket, options_of_driver, float(timeout)


def _clients(scheme: str, bucket: str, options: Mapping[str, Any], timeout_s: float) -> list[Any]:
    """Create two obstore clients, the first without retries, the second with retries.

    Raises `InvalidInput` if a client cannot be created.
    """
    obstore = library()
    if scheme == "memory":
        return [_memories.setdefault(f"{bucket}/{options['prefix'] or ''}", obstore.store.MemoryStore())] * 2
    kind, longest = getattr(obstore.store, _CLASSES[scheme]), timedelta(seconds=timeout_s)
    retries = [{"max_retries": most, "retry_timeout": longest} for most in (0, _RETRIES)]
    try:
        return [kind(bucket, retry_config=one, **options) for one in retries]
    except (obstore.exceptions.BaseError, ValueError):
        raise InvalidInput(
            "the object storage cannot be opened: check the bucket, the options and the credentials in the environment"
        ) from None


class Tag(NamedTuple):
    """ETag and version id of an object in object storage. They change whenever the object is replaced."""

    e_tag: str | None
    version: str | None


class Missing(Exception):
    """The object does not exist."""


class Taken(Exception):
    """The condition of a request was not met, so nothing was written."""


class Unsure(Exception):
    """A conditional write failed with an unknown outcome: it may have succeeded, or may still succeed later."""


class Requests:
    """Requests to the objects of the location at a URL. Threads may share it. Raises `InvalidInput`."""

    def __init__(self, url: str) -> None:
        check_process(_used_by)
        scheme, bucket, options, self.timeout_s = _parsed(url)  # maximum time that a command waits for the storage
        self._once, self._patient = _clients(scheme, bucket, options, self.timeout_s)
        self._probing = threading.Lock()
        # The cloud providers' own services support conditional writes; other endpoints are probed.
        is_elsewhere = any(_ENDPOINT.match(name.upper()) for name in os.environ) or _ENDPOINTS & options.keys()
        self._probed = scheme == "memory" or not is_elsewhere
        self._unquoted = False  # Ceph RGW 16 expects ETags without quotes

    def client(self, *, retries: bool = True) -> Any:
        """Return the obstore client. With `retries=False`, return a client that sends each request only once."""
        global _used_by  # noqa: PLW0603 - the threads of obstore belong to one process
        check_process(_used_by)
        _used_by = _used_by or os.getpid()
        return self._patient if retries else self._once

    def attempts(self, said: str = _FAILED) -> Iterator[None]:
        """Yield once for each attempt of the caller. Raises `Unavailable(said)` after `timeout_s` seconds."""
        deadline = time.monotonic() + self.timeout_s
        while time.monotonic() < deadline:
            yield
        raise Unavailable(said)

    def until_done(self, step: Callable[[], T]) -> T:
        """Call `step` until it raises neither `Taken` nor `Unsure`, and return its result.

        Raises `Unavailable` on timeout.
        """
        for _ in self.attempts():
            with suppress(Taken, Unsure):
                return step()
        raise AssertionError("unreachable")

    def get(self, key: str) -> tuple[bytes, Tag]:
        """Read an object and its tag. Raises `Missing` if the object does not exist."""
        found = self.get_unless(key, None)
        assert found is not None
        return found

    def get_unless(self, key: str, tag: Tag | None) -> tuple[bytes, Tag] | None:
        """Read an object and its tag, or return None if the tag is still `tag`. Raises `Missing`."""
        options = None if tag is None or tag.e_tag is None else {"if_none_match": tag.e_tag}
        with suppress(Taken), _mapped():
            found = self.client().get(key, options=options)
            return bytes(found.bytes()), Tag(found.meta["e_tag"], found.meta["version"])
        return None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a byte range of an object. Raises `Missing` if the object does not exist or ends before the range.

        If the object was replaced, the bytes come from the new object.
        """
        with _mapped(is_range=True):
            return bytes(self.client().get_range(key, start=start, length=length))

    def names(self, under: str, *, after: str | None = None) -> Iterator[str]:
        """Yield the keys of the objects under a prefix in key order.

        Only keys greater than the complete key `after` are listed.
        """
        with _mapped():
            for part in self.client().list(under, offset=after, chunk_size=1000):
                yield from [one["path"] for one in part]

    def put(self, key: str, data: bytes) -> None:
        """Write an object, or overwrite it. Use a unique key, so that no other writer uses the same key."""
        with _mapped(is_write=True):
            self.client().put(key, data, use_multipart=False)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects. Objects that do not exist are ignored."""
        for start in range(0, len(keys), 1000):
            part = list(keys[start : start + 1000])
            try:
                with _mapped():
                    self.client().delete(part)
            except Missing:  # some clouds stop a bulk delete at the first missing object
                together([partial(self.delete, [key]) for key in part] if len(part) > 1 else [])

    def replace(self, key: str, data: bytes, tag: Tag | None) -> Tag:
        """Replace an object, provided that its tag is still `tag`. Returns the new tag.

        If `tag` is None, create the object, provided that it does not exist. Raises `Taken` if the condition is not
        met, and `Unsure` if the outcome is unknown.
        """
        self.probe()
        return self._put_if(key, data, tag, unquoted=self._unquoted)

    def _put_if(self, key: str, data: bytes, tag: Tag | None, *, unquoted: bool = False) -> Tag:
        mode: object = "create"
        if tag is not None:
            e_tag = tag.e_tag.strip('"') if unquoted and tag.e_tag is not None else tag.e_tag
            mode = {name: value for name, value in (("e_tag", e_tag), ("version", tag.version)) if value is not None}
        try:
            made = self.client(retries=False).put(key, data, mode=mode, use_multipart=False)
            return Tag(made["e_tag"], made["version"])
        except (library().exceptions.BaseError, OSError, ValueError) as error:
            if "409 Conflict" in str(error):  # S3 replies this if it rejects a concurrent conditional write
                raise Taken from None
            found = _meaning(error, is_write=True)
            is_sent = not _NEVER_SENT.search(str(error))
            raise Unsure if isinstance(found, Unavailable) and is_sent else found from None

    def probe(self) -> None:
        """Check that the endpoint supports conditional writes. Raises `InvalidInput` if it does not.

        After a successful check, later calls send no requests.
        """
        with self._probing:
            if self._probed:
                return
            key = f"probe/{os.urandom(8).hex()}"
            try:
                self._unquoted = self._probe(key)
            except Unsure:
                raise Unavailable("the object storage did not respond") from None
            finally:
                with suppress(RetentiveError):  # the result of the probe matters more than a leftover object
                    self.delete([key])
            self._probed = True

    def _probe(self, key: str) -> bool:
        """Return True if the object storage expects ETags without quotes, as Ceph RGW 16 does.

        Raises `InvalidInput` if it does not support conditional writes.
        """
        tag = self._put_if(key, b"1", None)
        if self._holds(key, None):
            raise InvalidInput(_IGNORES)
        wrong = tag._replace(e_tag='"00000000000000000000000000000000"')
        for unquoted in (False, True):
            if self._holds(key, wrong, unquoted=unquoted):
                raise InvalidInput(_IGNORES)
            if self._holds(key, tag, unquoted=unquoted):
                return unquoted
        raise InvalidInput("the object storage rejects conditional writes (If-Match), which retentive needs")

    def _holds(self, key: str, tag: Tag | None, *, unquoted: bool = False) -> bool:
        with suppress(Taken):
            self._put_if(key, b"2", tag, unquoted=unquoted)
            return True
        return False


@contextmanager
def _mapped(*, is_write: bool = False, is_range: bool = False) -> Iterator[None]:
    """Context in which errors of the driver are converted to exceptions of this library, or to `Missing` or `Taken`."""
    try:
        yield
    except (library().exceptions.BaseError, OSError, ValueError) as error:
        if is_range and _OUT_OF_RANGE.search(str(error)):
            raise Missing from None
        raise _meaning(error, is_write=is_write) from None


def _meaning(error: Exception, *, is_write: bool) -> Exception:
    """Convert an error of the driver to an exception of this library, or to `Missing` or `Taken`.

    The exception does not contain the text of the driver, because that text has URLs and object keys.
    """
    errors, text = library().exceptions, str(error)
    if isinstance(error, errors.AlreadyExistsError | errors.PreconditionError | errors.NotModifiedError):
        return Taken()
    for pattern, kind, message in _MEANINGS:
        if re.search(pattern, text):
            return kind(message)
    if isinstance(error, errors.PermissionDeniedError | errors.UnauthenticatedError):
        return PermissionDenied(_REFUSED)
    if isinstance(error, FileNotFoundError):
        return Unavailable(_NO_BUCKET) if is_write else Missing()
    reason = why_unreachable(text)
    return Unavailable(_FAILED if reason is None else f"the object storage cannot be reached: {reason}")


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run `calls` in up to 16 threads, and return their results. A call must not use `together` itself.

    If any calls fail, the error of the first failed call in `calls` is raised. All calls have finished by then.
    """
    if len(calls) < 2:
        return [call() for call in calls]
    futures = [_threads().submit(call) for call in calls]
    wait(futures)
    return [future.result() for future in futures]


@cache
def _threads() -> ThreadPoolExecutor:
    """Return the thread pool that all stores of the process share."""
    return ThreadPoolExecutor(16, thread_name_prefix="retentive-objects")
