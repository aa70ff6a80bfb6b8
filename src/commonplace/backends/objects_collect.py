"""Deleting objects that no state of a memory store names: those of crashed writers, and pages that folding replaced."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from commonplace.backends.objects_commit import Committer, Roots
from commonplace.backends.objects_requests import Requests
from commonplace.backends.objects_root import Record, Ref, Root
from commonplace.backends.objects_snapshot import Immutables
from commonplace.errors import Unavailable

COLLECT_AFTER_S = 86_400.0
_KINDS = ("texts", "pages", "history")
_TRIES = 20


def collect(
    store_id: str, before: datetime, *, requests: Requests, roots: Roots, committer: Committer, objects: Immutables
) -> int:
    """Delete objects last written before a moment that the present state does not name; how many.

    What is to go is listed first and the state read afterwards, so that what a writer committed in between is found to
    be in use. One that is about to commit over an earlier state fails, since the root gets another tag before anything
    is deleted; and no writer tries again with texts that are an hour old.
    """
    roots.now(store_id)
    old = {kind: _older(requests, objects.key(kind, ""), before) for kind in _KINDS}
    if not any(old.values()):
        return 0
    for _ in range(_TRIES):
        held = committer.touch(roots.now(store_id))
        if held is not None:
            break
    else:
        raise Unavailable("too many others write to the memory store")
    named = _named(held.root, objects)
    going = [objects.key(kind, name) for kind in _KINDS for name in sorted(old[kind] - named[kind])]
    requests.delete(going)
    return len(going)


def _older(requests: Requests, under: str, before: datetime) -> set[str]:
    found = requests.names(under.rstrip("/"))
    return {listed.key.rpartition("/")[2] for listed in found if listed.modified < before}


def _named(root: Root, objects: Immutables) -> dict[str, set[str]]:
    """All names of objects a state leads to."""
    texts, history = _texts(root.log), set[str]()
    for depth, level in enumerate(root.history):
        for ref in level:
            _follow(ref, depth, objects, texts, history)
    for page in objects.pages(root.pages):
        texts.update(entry.text for entry in page.entries if entry.text is not None)
    return {"texts": texts, "pages": {ref.name for ref in root.pages}, "history": history}


def _follow(ref: Ref, depth: int, objects: Immutables, texts: set[str], history: set[str]) -> None:
    history.add(ref.name)
    if depth == 0:
        texts |= _texts(objects.chunk(ref))
        return
    for child in objects.node(ref):
        _follow(child, depth - 1, objects, texts, history)


def _texts(records: Iterable[Record]) -> set[str]:
    return {record.text for record in records if record.text is not None}
