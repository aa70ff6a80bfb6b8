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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache, partial
from types import ModuleType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from retentive.errors import InvalidInput, PermissionDenied, RetentiveError, Unavailable
from retentive.values.extras import why_unreachable

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
    """Raise `InvalidInput` unless this process opened the object storage, or no process has (`opened_in` is None)."""
    if opened_in is not None and os.getpid() != opened_in:
        raise InvalidInput(_FORKED)


def _clients(url: str) -> tuple[list[Any], float, bool]:  # noqa: C901 - one check after the other
    """Return two obstore clients for a URL such as `s3://bucket/prefix?option=value`, without and with retries.

    Also returns the timeout of a command, and whether an endpoint is named in the URL. Raises `InvalidInput` with a
    message that names the valid values.
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
    allow_http, timeout = options.get("allow_http", "false"), options.get("timeout_s", "30")
    if allow_http not in {"true", "false"}:
        raise InvalidInput("the option `allow_http` must be true or false")
    if not _SECONDS.fullmatch(timeout) or not 0 < float(timeout) <= 3600:
        raise InvalidInput("the option `timeout_s` must be a number of seconds, at most 3600")
    obstore, timeout_s = library(), float(timeout)
    if scheme == "memory":
        return [_memories.setdefault(f"{bucket}/{prefix or ''}", obstore.store.MemoryStore())] * 2, timeout_s, False
    client_options: dict[str, Any] = {
        "timeout": timedelta(seconds=timeout_s / 3), "connect_timeout": timedelta(seconds=5)
    } | ({"allow_http": True} if allow_http == "true" else {})  # fmt: skip
    config = {key: options[name] for name, key in _CONFIG[scheme].items() if name in options}
    kind, longest = getattr(obstore.store, _CLASSES[scheme]), timedelta(seconds=timeout_s)
    retries = [{"max_retries": most, "retry_timeout": longest} for most in (0, _RETRIES)]
    try:
        clients = [
            kind(bucket, retry_config=one, prefix=prefix, client_options=client_options, **config) for one in retries
        ]
    except (obstore.exceptions.BaseError, ValueError):
        raise InvalidInput(
            "the object storage cannot be opened: check the bucket, the options and the credentials in the environment"
        ) from None
    # The cloud providers' own services support conditional writes; other endpoints are probed.
    is_elsewhere = "endpoint" in options or any(_ENDPOINT.match(name.upper()) for name in os.environ)
    return clients, timeout_s, is_elsewhere


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
        (self._once, self._patient), self.timeout_s, must_probe = _clients(url)
        self._probing = threading.Lock()
        self._probed = not must_probe
        self._unquoted = False  # Ceph RGW 16 expects ETags without quotes

    def client(self, *, retries: bool = True) -> Any:
        """Return the obstore client. With `retries=False`, return a client that sends each request only once."""
        global _used_by  # noqa: PLW0603 - the threads of obstore belong to one process
        check_process(_used_by)
        _used_by = _used_by or os.getpid()
        return self._patient if retries else self._once

    def until_done(self, step: Callable[[], T]) -> T:
        """Call `step` until it raises neither `Taken` nor `Unsure`, and return its result.

        Raises `Unavailable` on timeout.
        """
        deadline = time.monotonic() + self.timeout_s
        while time.monotonic() < deadline:
            with suppress(Taken, Unsure):
                return step()
        raise Unavailable(_FAILED)

    def get(self, key: str, tag: Tag | None = None) -> tuple[bytes, Tag]:
        """Read an object and its tag. Raises `Missing` if it does not exist, and `Taken` if its tag is still `tag`."""
        options = None if tag is None or tag.e_tag is None else {"if_none_match": tag.e_tag}
        with _mapped():
            found = self.client().get(key, options=options)
            return bytes(found.bytes()), Tag(found.meta["e_tag"], found.meta["version"])

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a byte range of an object. Raises `Missing` if the object does not exist or ends before the range."""
        with _mapped(is_range=True):
            return bytes(self.client().get_range(key, start=start, length=length))

    def names(self, under: str, *, after: str | None = None) -> Iterator[str]:
        """Yield the keys of the objects under a prefix in key order.

        Only keys greater than the complete key `after` are listed.
        """
        return (key for key, _ in self.sizes(under, after=after))

    def sizes(self, under: str, *, after: str | None = None) -> Iterator[tuple[str, int]]:
        """Yield the keys and sizes of the objects under a prefix, as `names` does."""
        with _mapped():
            for part in self.client().list(under, offset=after, chunk_size=1000):
                yield from [(one["path"], one["size"]) for one in part]

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
        with self._probing:
            if not self._probed:
                self._probe()
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

    def _probe(self) -> None:
        """Find out once how the endpoint compares ETags. Raises `InvalidInput` if it ignores conditions."""
        key = f"probe/{os.urandom(8).hex()}"

        def writes(tag: Tag | None, *, unquoted: bool = False) -> bool:
            with suppress(Taken):
                self._put_if(key, b"2", tag, unquoted=unquoted)
                return True
            return False

        try:
            tag = self._put_if(key, b"1", None)
            wrong = tag._replace(e_tag='"00000000000000000000000000000000"')
            if writes(None) or writes(wrong):
                raise InvalidInput(_IGNORES)
            self._unquoted = not writes(tag)
            if self._unquoted and writes(wrong, unquoted=True):
                raise InvalidInput(_IGNORES)
            if self._unquoted and not writes(tag, unquoted=True):
                raise InvalidInput("the object storage rejects conditional writes (If-Match), which retentive needs")
            self._probed = True
        except Unsure:
            raise Unavailable("the object storage did not respond") from None
        finally:
            with suppress(RetentiveError):  # the result of the probe matters more than a leftover object
                self.delete([key])


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
