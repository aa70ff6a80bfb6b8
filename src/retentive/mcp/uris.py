"""URIs of memories: `memory://STORE/PATH`. PATH is relative to /memories. Both parts are percent-encoded."""

from __future__ import annotations

from urllib.parse import quote, unquote

from retentive.values.paths import ROOT

SCHEME = "memory://"


def template(store: str) -> str:
    """Return the URI template of the memories in a memory store."""
    return f"{SCHEME}{quote(store, safe='')}/{{+path}}"


def uri_of(store: str, path: str) -> str:
    """Return the URI of the memory at a path."""
    return f"{SCHEME}{quote(store, safe='')}/{quote(path.removeprefix(f'{ROOT}/'))}"


def path_in(uri: str, store: str) -> str | None:
    """Return the path in the URI of a memory. Return None if the URI is malformed or names another memory store.

    The path is not checked: if it leaves /memories, the memory store refuses it later.
    """
    named, slash, path = uri.removeprefix(SCHEME).partition("/")
    if not uri.startswith(SCHEME) or not slash or unquote(named) != store:
        return None
    try:
        return f"{ROOT}/{unquote(path, errors='strict')}"
    except UnicodeDecodeError:
        return None
