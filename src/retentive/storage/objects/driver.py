"""obstore clients, configured by a URL.

obstore runs requests on its own threads, which start with the first request of a process. A forked child does not
inherit them, so every request of the child would hang. Therefore the client raises `InvalidInput` in a child of a
process that made requests. A child may use object storage if its parent made no request before the fork.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from retentive.errors import InvalidInput

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

    ObjectStore = S3Store | GCSStore | AzureStore | MemoryStore

UNQUOTED_ETAG = "unquoted-etag"
FORKED = (
    "object storage was opened before this process was forked: open the location after the fork, in a process whose "
    "parent has not used object storage, or start processes with spawn"
)
_RETRIES = 3
_CONFIG = {  # our option names and obstore's names for them
    "s3": {"endpoint": "endpoint", "region": "region"},
    "gs": {"endpoint": "base_url"},
    "az": {"account": "account_name", "endpoint": "endpoint"},
    "memory": {},
}
_OWN = {"s3": ["allow_http", "quirk", "timeout_s"], "memory": ["timeout_s"]}
_CLASSES = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}
_SECONDS = re.compile(r"\d*\.?\d+")
_ENDPOINT = re.compile(r"(AWS|AZURE|GOOGLE)_.*(ENDPOINT|BASE_URL)")


@dataclass(frozen=True, slots=True)
class Place:
    """The location in a URL such as `s3://bucket/prefix?option=value`."""

    scheme: str
    bucket: str
    prefix: str | None
    config: Mapping[str, str]
    allow_http: bool
    quirk: str | None
    timeout_s: float

    @classmethod
    def parse(cls, url: str) -> Place:
        """Parse and validate a URL. Raises `InvalidInput` with the valid choices."""
        try:
            parts = urlsplit(url)
            options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        except ValueError:
            raise InvalidInput("the place is no URL such as s3://bucket/prefix?region=eu-central-1") from None
        scheme, bucket, prefix = parts.scheme, unquote(parts.netloc), unquote(parts.path).strip("/") or None
        if scheme not in _CONFIG:
            raise InvalidInput(f"object storage is named by {', '.join(f'{one}://' for one in _CONFIG)}")
        if "@" in parts.netloc:
            raise InvalidInput("credentials belong into the environment, not into the place")
        known = [*_CONFIG[scheme], *_OWN.get(scheme, ["allow_http", "timeout_s"])]
        for name in options:
            if name not in known:
                raise InvalidInput(f"unknown option {name[:40]!r} of {scheme}://; known are {', '.join(known)}")
        if scheme != "memory" and not bucket:
            raise InvalidInput(f"name a bucket: {scheme}://bucket/prefix")
        quirk, allow_http = options.get("quirk"), options.get("allow_http", "false")
        if quirk not in {None, "none", UNQUOTED_ETAG}:
            raise InvalidInput(f"quirk must be none or {UNQUOTED_ETAG}")
        if allow_http not in {"true", "false"}:
            raise InvalidInput("allow_http must be true or false")
        timeout = options.get("timeout_s", "30")
        if not _SECONDS.fullmatch(timeout) or not 0 < float(timeout) <= 3600:
            raise InvalidInput("timeout_s must be a number of seconds, at most 3600")
        config = {key: options[name] for name, key in _CONFIG[scheme].items() if name in options}
        return cls(scheme, bucket, prefix, config, allow_http == "true", quirk, float(timeout))


@cache
def library() -> ModuleType:
    """obstore, imported on first use: the import dominates the time to open a location."""
    import obstore.exceptions  # noqa: PLC0415 - see above
    import obstore.store  # noqa: PLC0415 - see above

    return obstore


_used_by: int | None = None
_memories: dict[str, MemoryStore] = {}


def check_process(opened_in: int | None) -> None:
    """Raise `InvalidInput` if the current process is not `opened_in`."""
    if opened_in is not None and os.getpid() != opened_in:
        raise InvalidInput(FORKED)


class Client:
    """obstore clients for one location."""

    def __init__(self, place: Place) -> None:
        check_process(_used_by)
        self.place = place
        self._once, self._patient = self._made()

    @property
    def once(self) -> ObjectStore:
        """Client without retries, for requests that must not be sent twice."""
        return self._used(self._once)

    @property
    def patient(self) -> ObjectStore:
        """Client with retries, for all other requests."""
        return self._used(self._patient)

    def _used(self, store: ObjectStore) -> ObjectStore:
        global _used_by  # noqa: PLW0603 - obstore's threads belong to one process
        check_process(_used_by)
        _used_by = _used_by or os.getpid()
        return store

    @property
    def is_known(self) -> bool:
        """True for the clouds' own services, which honour conditional writes; other endpoints are probed."""
        given = {"endpoint", "base_url"} & set(self.place.config)
        is_elsewhere = given or any(_ENDPOINT.match(name.upper()) for name in os.environ)
        return self.place.scheme == "memory" or not is_elsewhere

    def _made(self) -> list[ObjectStore]:
        place, obstore = self.place, library()
        if place.scheme == "memory":
            return [_memories.setdefault(f"{place.bucket}/{place.prefix or ''}", obstore.store.MemoryStore())] * 2
        longest = timedelta(seconds=place.timeout_s)
        options: dict[str, Any] = {"timeout": longest / 3, "connect_timeout": timedelta(seconds=5)}
        if place.allow_http:
            options["allow_http"] = True
        kind = getattr(obstore.store, _CLASSES[place.scheme])
        try:
            return [
                kind(
                    place.bucket,
                    prefix=place.prefix,
                    client_options=options,
                    retry_config={"max_retries": retries, "retry_timeout": longest},
                    **place.config,
                )
                for retries in (0, _RETRIES)
            ]
        except (obstore.exceptions.BaseError, ValueError):
            raise InvalidInput(
                "the object storage cannot be opened: look at bucket, options and the credentials in the environment"
            ) from None
