"""obstore: the place a URL names, and a client of it that works in every process.

obstore runs its requests on threads of its own, one set per process, which a forked child does not have: there every
request would wait for ever. So a child loads the library once more, as a copy with a state of its own (70 ms), and
leaves what it inherited alone.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.machinery import ExtensionFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from retentive.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

    ObjectStore = S3Store | GCSStore | AzureStore | MemoryStore

UNQUOTED_ETAG = "unquoted-etag"
DEFAULT_TIMEOUT_S = 30.0
SCHEMES = ("s3", "gs", "az", "memory")
_RETRIES = 3
_KNOWN = {
    "s3": ("endpoint", "region", "allow_http", "quirk", "timeout_s"),
    "gs": ("endpoint", "allow_http", "timeout_s"),
    "az": ("account", "endpoint", "allow_http", "timeout_s"),
    "memory": ("timeout_s",),
}
_CONFIG = {
    ("s3", "endpoint"): "endpoint",
    ("s3", "region"): "region",
    ("gs", "endpoint"): "base_url",
    ("az", "account"): "account_name",
    ("az", "endpoint"): "endpoint",
}
_ENDPOINT = re.compile(r"(AWS|AZURE|GOOGLE)_.*(ENDPOINT|BASE_URL)")
_CLASSES = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}


@dataclass(frozen=True, slots=True)
class Place:
    """What a URL says: `s3://bucket/prefix?option=value`."""

    scheme: str
    bucket: str
    prefix: str | None
    config: Mapping[str, str]
    allow_http: bool
    quirk: str | None
    timeout_s: float

    @classmethod
    def parse(cls, url: str) -> Place:
        """Raises `InvalidInput`, saying what would be right."""
        try:
            parts = urlsplit(url)
            options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        except ValueError:
            raise InvalidInput("the place is no URL such as s3://bucket/prefix?region=eu-central-1") from None
        if parts.scheme not in SCHEMES:
            raise InvalidInput(f"object storage is named by {', '.join(f'{scheme}://' for scheme in SCHEMES)}")
        if "@" in parts.netloc:
            raise InvalidInput("credentials belong into the environment, not into the place")
        known = _KNOWN[parts.scheme]
        for name in options:
            if name not in known:
                raise InvalidInput(f"unknown option {name[:40]!r} of {parts.scheme}://; known are {', '.join(known)}")
        if parts.scheme != "memory" and not parts.netloc:
            raise InvalidInput(f"name a bucket: {parts.scheme}://bucket/prefix")
        return cls(
            parts.scheme,
            unquote(parts.netloc),
            unquote(parts.path).strip("/") or None,
            {
                key: options[name]
                for (scheme, name), key in _CONFIG.items()
                if scheme == parts.scheme and name in options
            },
            _flag(options.get("allow_http", "false")),
            _quirk(options.get("quirk")),
            _seconds(options.get("timeout_s")),
        )


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise InvalidInput("allow_http must be true or false")
    return text == "true"


def _quirk(text: str | None) -> str | None:
    if text not in {None, "none", UNQUOTED_ETAG}:
        raise InvalidInput(f"quirk must be none or {UNQUOTED_ETAG}")
    return text


def _seconds(text: str | None) -> float:
    try:
        seconds = DEFAULT_TIMEOUT_S if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise InvalidInput("timeout_s must be a number of seconds, at most 3600")
    return seconds


# -- the library, once per process ---------------------------------------------------------------------------

_loading = threading.Lock()
_loaded: tuple[int, ModuleType] | None = None


def library() -> ModuleType:
    """obstore, as this process can use it."""
    global _loaded  # noqa: PLW0603 - a library is loaded once per process, whoever uses it
    found = _loaded
    if found is not None and found[0] == os.getpid():
        return found[1]
    with _loading:
        if _loaded is None:
            import obstore.store  # noqa: PLC0415 - most of the time of opening

            _loaded = (os.getpid(), obstore)
        elif _loaded[0] != os.getpid():
            _keep_for_ever(_loaded)
            _loaded = (os.getpid(), _load_copy(_loaded[1]))
        return _loaded[1]


def _forked() -> None:
    global _loading  # noqa: PLW0603 - another thread may have held it
    _loading = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _keep_for_ever(thing: object) -> None:
    """Never let it be freed: to free what was inherited would reach into the parent's connections."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _load_copy(original: ModuleType) -> ModuleType:
    """obstore once more, beside the original. The linker knows a library by its file, so it needs another file."""
    source = _source_of(original)
    inherited = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "obstore"}
    _keep_for_ever(inherited)
    try:
        with _copied(source) as path:
            name = "obstore._obstore"
            loader = ExtensionFileLoader(name, path)
            spec = importlib.util.spec_from_file_location(name, path, loader=loader)
            assert spec is not None
            sys.modules[name] = module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            module.__file__ = source
            import obstore.store  # noqa: PLC0415 - the copy
    except (ImportError, OSError):
        sys.modules.update(inherited)
        raise Unavailable("object storage cannot be used in a forked process here; start it with spawn") from None
    return obstore


def _source_of(library: ModuleType) -> str:
    source = library._obstore.__file__  # noqa: SLF001 - where the compiled part lies is said nowhere else
    assert isinstance(source, str)
    return source


@contextmanager
def _copied(path: str) -> Iterator[str]:
    """A copy of a file under a name that no copy had before; in memory where the system can."""
    with open(path, "rb") as file:
        data = file.read()
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("obstore")
        with open(descriptor, "wb", closefd=True) as copy:
            copy.write(data)
            copy.flush()
            yield f"/proc/{os.getpid()}/fd/{descriptor}"
        return
    with tempfile.TemporaryDirectory() as directory:
        copied = os.path.join(directory, os.path.basename(path))
        with open(copied, "wb") as copy:
            copy.write(data)
        yield copied


# -- clients -------------------------------------------------------------------------------------------------

_memories: dict[str, MemoryStore] = {}


class Client:
    """A place as obstore reaches it. `once` sends each request one time, `patient` again if it failed."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._stores: tuple[int, ObjectStore, ObjectStore] | None = None
        self._in_process()

    @property
    def once(self) -> ObjectStore:
        """For what must not be sent twice."""
        return self._in_process()[1]

    @property
    def patient(self) -> ObjectStore:
        """For all else."""
        return self._in_process()[2]

    @property
    def is_far(self) -> bool:
        """Whether it is a server."""
        return self.place.scheme != "memory"

    @property
    def is_known(self) -> bool:
        """Whether it is a cloud's own service, whose conditions are known to hold; else it has to be tried."""
        given = {"endpoint", "base_url"} & set(self.place.config)
        return not self.is_far or not (given or any(_ENDPOINT.match(name.upper()) for name in os.environ))

    def forget_threads(self) -> None:
        """In a forked child."""
        self._lock = threading.Lock()

    def _in_process(self) -> tuple[int, ObjectStore, ObjectStore]:
        found = self._stores
        if found is not None and found[0] == os.getpid():
            return found
        with self._lock:
            if self._stores is None or self._stores[0] != os.getpid():
                if self._stores is not None and self.is_far:
                    _keep_for_ever(self._stores)
                self._stores = (os.getpid(), *self._made())
            return self._stores

    def _made(self) -> tuple[ObjectStore, ObjectStore]:
        obstore: Any = library()
        if not self.is_far:
            memory = _memories.setdefault(
                self.place.bucket + "/" + (self.place.prefix or ""), obstore.store.MemoryStore()
            )
            return memory, memory
        timeout_s = self.place.timeout_s
        options: dict[str, Any] = {"timeout": timedelta(seconds=timeout_s / 3), "connect_timeout": timedelta(seconds=5)}
        if self.place.allow_http:
            options["allow_http"] = True
        kind = getattr(obstore.store, _CLASSES[self.place.scheme])
        try:
            once, patient = (
                kind(
                    self.place.bucket,
                    prefix=self.place.prefix,
                    client_options=options,
                    retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=timeout_s)},
                    **self.place.config,
                )
                for retries in (0, _RETRIES)
            )
        except (obstore.exceptions.BaseError, ValueError):
            raise InvalidInput(
                "the object storage cannot be opened: look at bucket, options and the credentials in the environment"
            ) from None
        return once, patient
