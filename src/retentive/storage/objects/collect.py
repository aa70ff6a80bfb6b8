"""Deleting objects that no state of a memory store names: those of crashed writers, and pages that folding replaced."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from retentive.errors import Unavailable
from retentive.storage.objects.commit import Committer, Roots
from retentive.storage.objects.immutables import KINDS, Immutables
from retentive.storage.objects.manifest import Root
from retentive.storage.objects.notes import names_in
from retentive.storage.objects.records import Record, Ref
from retentive.storage.objects.requests import Requests

COLLECT_AFTER_S = 86_400.0
_TRIES = 20


def collect(
    store_id: str, before: datetime, *, requests: Requests, roots: Roots, committer: Committer, objects: Immutables
) -> int:
    """Delete objects last written before a moment that the present state does not name; how many.

    What is to go is listed first and the state read afterwards, so that what a writer committed in between is found to
    be in use. One that is about to commit over an earlier state fails, since the root gets another tag before anything
    is deleted; and no writer tries again with texts that are an hour old.
    """
    roots.live(store_id)
    old = {kind: _older(requests, objects.key(kind, ""), before) for kind in KINDS}
    if not any(old.values()):
        return 0
    for _ in range(_TRIES):
        held = committer.touch(roots.live(store_id))
        if held is not None:
            break
    else:
        raise Unavailable("too many others write to the memory store")
    named = _named(held.root, objects)
    going = [objects.key(kind, name) for kind in KINDS for name in sorted(old[kind] - named[kind])]
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
    pages = {ref.name for ref in root.pages}
    lists = {name.partition("/")[2] for name in root.pending if name.startswith("lists/")}
    return {"texts": texts, "pages": pages, "history": history, "lists": lists, **_named_by_notes(root, objects)}


def _named_by_notes(root: Root, objects: Immutables) -> dict[str, set[str]]:
    names = {name for notes in root.notes.values() for name in names_in(notes)}
    every = [note for notes in root.notes.values() for note in notes.recent.values()]
    every += [note for part in objects.notes(sorted(names)) for note in part.values()]
    return {"notes": names, "values": {note.held_in for note in every if note.held_in is not None}}


def _follow(ref: Ref, depth: int, objects: Immutables, texts: set[str], history: set[str]) -> None:
    history.add(ref.name)
    if depth == 0:
        texts |= _texts(objects.chunk(ref))
        return
    for child in objects.node(ref):
        _follow(child, depth - 1, objects, texts, history)


def _texts(records: Iterable[Record]) -> set[str]:
    return {record.text for record in records if record.text is not None}
