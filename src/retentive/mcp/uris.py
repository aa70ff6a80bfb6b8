"""URIs of memories: `memory://STORE/PATH`. PATH is relative to /memories. Both parts are percent-encoded."""

from __future__ import annotations

from urllib.parse import quote, unquote

from retentive.values.paths import ROOT

SCHEME = "memory://"


def template(store: str) -> str:
    """Return the template of the URIs of all memories in a store. `store` is the name of the store in URIs."""
    return f"{SCHEME}{quote(store, safe='')}/{{+path}}"


def uri_of(store: str, path: str) -> str:
    """Return the URI of the memory at a path. `store` is the name of its store in URIs."""
    return f"{SCHEME}{quote(store, safe='')}/{quote(path.removeprefix(f'{ROOT}/'))}"


def path_in(uri: str, store: str) -> str | None:
    """Return the memory path in a URI, or None if the URI is malformed or does not name the memory store `store`.

    The path is not checked here. If the path is outside /memories, the memory store refuses it when the path is used.
    """
    named, slash, path = uri.removeprefix(SCHEME).partition("/")
    if not uri.startswith(SCHEME) or not slash or unquote(named) != store:
        return None
    try:
        return f"{ROOT}/{unquote(path, errors='strict')}"
    except UnicodeDecodeError:
        return None
