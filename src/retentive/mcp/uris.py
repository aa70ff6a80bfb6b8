"""URIs of memories: `memory://STORE/PATH`, with the path below /memories, percent-encoded."""

from __future__ import annotations

from urllib.parse import quote, unquote

from retentive.values.paths import ROOT

SCHEME = "memory://"


def template(store: str) -> str:
    """URI template of the memories of a store."""
    return f"{SCHEME}{quote(store, safe='')}/{{+path}}"


def uri_of(store: str, path: str) -> str:
    """URI of the memory at a path."""
    return f"{SCHEME}{quote(store, safe='')}/{quote(path.removeprefix(f'{ROOT}/'))}"


def path_in(uri: str, store: str) -> str | None:
    """Return the path of the memory that a URI names, or None for any other URI and for a URI of another store.

    A path that leaves /memories is returned unchanged. The store refuses it when it parses the path.
    """
    named, slash, path = uri.removeprefix(SCHEME).partition("/")
    if not uri.startswith(SCHEME) or not slash or unquote(named) != store:
        return None
    try:
        return f"{ROOT}/{unquote(path, errors='strict')}"
    except UnicodeDecodeError:
        return None
