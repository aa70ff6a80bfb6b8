"""Pages to edit, create, rename and delete a memory. The memory must still have the version that the person saw."""

from __future__ import annotations

from contextlib import suppress

from starlette.responses import Response

from retentive.console import differences
from retentive.console.rendering import BASE, is_hidden, page_path, size
from retentive.console.visits import Visit, digest, page, redirect
from retentive.errors import Conflict, NotFound
from retentive.server.calls import WRITE, lacking
from retentive.server.errors import finding, invalid
from retentive.storage.contract import Memory
from retentive.values import diff
from retentive.values.paths import ROOT
from retentive.values.records import Written

MAX_PLACES = 50
"""Maximum number of conflicting places with a choice for each. With more places, the person edits the whole text."""


@page("GET POST", "edit/{path:path}", "write", "tree")
def edit(visit: Visit) -> Response:
    """Show a form with the text of a memory. With POST, save the text."""
    path = visit.memory_path
    if visit.is_post:
        return _save(visit, path)
    with finding("memory"):
        memory, text = visit.store.load(path)
    if "\r" in text.replace("\r\n", "") or ("\r\n" in text and "\n" in text.replace("\r\n", "")):
        raise invalid(
            "the text has mixed line ends, which a browser would change; edit the memory with `retentive edit`"
        )
    hidden = sum(char not in "\n\t" and is_hidden(char) for char in text)
    values = {"path": path, "text": text, "version_id": memory.version_id, "is_new": False, "hidden": hidden}
    return visit.page("edit.html", f"Edit {path}", **values)


def _save(visit: Visit, path: str) -> Response:
    """Save the text, or the choices made on the conflict page. If the memory has a newer version, show the conflict."""
    seen_id, choosing = visit.given("version"), visit.given("choose")
    theirs = _text_of(visit, seen_id)
    text = typed = _line_ends(visit.given("text"), theirs)
    is_edited = choosing != "" and visit.given("filled") not in {"", digest(typed)}
    if choosing:
        parts = diff.merge_parts(_text_of(visit, visit.given("base")), _line_ends(visit.given("mine"), theirs), theirs)
        text, _ = differences.decided(parts, _picks(visit))
    if choosing == "show" or is_edited:
        return _conflict(visit, path, text, seen_id, is_shown=True, edited=typed if is_edited else None)
    try:
        return _saved(visit, visit.store.write(path, text, if_version=seen_id))
    except (Conflict, NotFound):
        return _conflict(visit, path, text, seen_id)


def _picks(visit: Visit) -> list[str]:
    return [visit.given(f"place-{number}") for number in range(MAX_PLACES)]


def _text_of(visit: Visit, version_id: str) -> str:
    return visit.store.version_text(version_id) if version_id else ""  # without an id, the memory did not exist


def _conflict(
    visit: Visit, path: str, mine: str, base_id: str, *, is_shown: bool = False, edited: str | None = None
) -> Response:
    """Show both changes, the conflicting places with a choice for each, and the merged text.

    `mine` is the text of the person, or the text that results from the choices if the person has seen this page before
    (`is_shown`). `edited` is the merged text as the person edited it: the page then asks whether to save this text or
    the choices, so that neither is lost.
    """
    memory, theirs = _present(visit, path, base_id)
    text, picks = mine, list[str]()
    if is_shown and memory is not None and memory.version_id == base_id:
        base_id, picks = visit.given("base"), _picks(visit)
        mine = _line_ends(visit.given("mine"), theirs)
    base = _text_of(visit, base_id)
    parts = [] if memory is None else diff.merge_parts(base, mine, theirs)
    merged, places = differences.decided(parts, picks)
    text = edited if edited is not None else merged if parts and not picks else text
    at = path if memory is None else memory.path
    return visit.page(
        "conflict.html",
        f"Conflict: {at}",
        409,
        path=at,
        was=path,
        version_id="" if memory is None else memory.version_id,
        base_id=base_id,
        by=next(iter(visit.store.history.log(at, limit=1)), None),
        theirs=differences.shown(at, base, None if memory is None else theirs),
        mine=differences.shown(at, base, mine),
        mine_text=mine,
        text=text,
        places=places if len(places) <= MAX_PLACES else [],
        overlaps=len(places),
        is_shown=bool(picks),
        is_edited=edited is not None,
        filled=digest(text),
    )


def _present(visit: Visit, path: str, base_id: str) -> tuple[Memory | None, str]:
    """Return the existing memory and its text, even if it was renamed meanwhile. None if the memory was deleted."""
    with suppress(NotFound):
        return visit.store.load(path)
    with suppress(NotFound):
        if base_id:
            return visit.store.by_id.get(visit.store.history.show(base_id)[0].memory_id)
    return None, ""


@page("GET POST", "new", "write", "tree")
def create(visit: Visit) -> Response:
    """Show the form for a new memory. With POST, create the memory."""
    if visit.is_post:
        path, text = visit.given("path").strip(), _line_ends(visit.given("text"), "")
        return _saved(visit, visit.store.write(path, text, if_version=""))
    path = (visit.query.get("under") or ROOT).rstrip("/") + "/"
    return visit.page("edit.html", "New memory", path=path, text="", is_new=True, hidden=0)


@page("GET POST", "move/{path:path}", "write", "tree")
def rename(visit: Visit) -> Response:
    """Show the form for a new path. With POST, rename the memory."""
    path, address = visit.memory_path, page_path(visit.memory_path)
    if visit.is_post:
        return _saved(visit, visit.store.rename(path, visit.given("path").strip(), if_version=visit.given("version")))
    with finding("memory"):
        version = visit.store.load(path)[0].version_id
    about, fields = "The id, the history and links by id stay.", [("path", "New path", path, 1_024)]
    action, back, hidden = visit.url("move", address), visit.url("m", address), {"version": version}
    return visit.page("ask.html", "Rename", action=action, back=back, about=about, fields=fields, hidden=hidden)


@page("GET POST", "promote/{path:path}", "read", "tree")
def promote(visit: Visit) -> Response:
    """Ask for a memory store and a path there. With POST, propose the memory, or the directory, to that store."""
    path, address = visit.memory_path, page_path(visit.memory_path)
    if visit.is_post:
        there = visit.named(visit.given("to").strip())
        if not visit.caller.may("write", there):
            raise lacking(WRITE)
        made = visit.store.promote(path, visit.opened(there), new_path=visit.given("path").strip() or None)
        page_there = f"review/{made.proposal_id}" if visit.caller.may("review", there) else "activity"
        return redirect(f"{BASE}/s/{there.id}/{page_there}")
    about = "It is proposed there with its history. Somebody else accepts it, whatever the settings."
    fields = [("to", "Memory store, by key or id", "", 255), ("path", "Path there", path, 1_024)]
    action, back = visit.url("promote", address), visit.url("m", address)
    return visit.page("ask.html", "Promote", action=action, back=back, about=about, fields=fields, hidden={})


@page("GET POST", "delete/{path:path}", "write", "tree")
def delete(visit: Visit) -> Response:
    """Ask for confirmation. With POST, delete the memory. Its history is kept."""
    path, address = visit.memory_path, page_path(visit.memory_path)
    if visit.is_post:
        written = visit.store.delete(path, if_version=visit.given("version"))
        return redirect(visit.proposed_url() if written.is_proposed else visit.url("change", written.version_id))
    with finding("memory"):
        memory = visit.store.load(path)[0]
    about = f"{size(memory.size_bytes)}. The versions are kept, so this can be undone."
    action, back, hidden = visit.url("delete", address), visit.url("m", address), {"version": memory.version_id}
    values = {"name": path, "about": about, "kind": "danger"}
    return visit.page("ask.html", "Delete", action=action, back=back, hidden=hidden, **values)


def _saved(visit: Visit, written: Written) -> Response:
    return redirect(visit.proposed_url() if written.is_proposed else visit.url("m", page_path(written.path)))


def _line_ends(typed: str, before: str) -> str:
    """Return a typed text with the line ends of the text `before`. Browsers send each line end as CRLF."""
    text = typed.replace("\r\n", "\n")
    return text.replace("\n", "\r\n") if "\r\n" in before else text
