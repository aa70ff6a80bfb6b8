"""Edit, create, rename and delete a memory, with the version that the person has seen as a precondition."""

from __future__ import annotations

from retentive.console import differences
from retentive.console.pages.tree import parsed
from retentive.console.visible import is_hidden
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, not_found, page_path, tool_path
from retentive.errors import Conflict, NotFound
from retentive.server.errors import invalid
from retentive.storage.contract import Memory
from retentive.values import diff
from retentive.values.records import Written


def edit(visit: Visit) -> PageAnswer:
    """The form with the text of a memory; with POST, the change."""
    path = parsed(visit.memory_path).text
    if visit.method == "POST":
        return _save(visit, path)
    memory, text = _load(visit, path)
    _check_line_ends(text)
    return _form(path, text, memory.version_id)


def _form(path: str, text: str, version_id: str, *, is_new: bool = False) -> HtmlPage:
    hidden = sum(char not in "\n\t" and is_hidden(char) for char in text)
    values = {"path": path, "text": text, "version_id": version_id, "is_new": is_new, "hidden": hidden, "area": "tree"}
    return HtmlPage("edit.html", values, title=f"Edit {path}")


def _save(visit: Visit, path: str) -> PageAnswer:
    base_id = visit.given("version")
    text = _typed(visit, visit.store.version_text(base_id))
    try:
        written = visit.store.write(path, text, if_version=base_id)
    except (Conflict, NotFound):
        return _conflict(visit, path, text, base_id)
    return _saved(visit, written)


def _conflict(visit: Visit, path: str, mine: str, base_id: str) -> PageAnswer:
    """The page after somebody else changed the memory: both changes, and the merged text."""
    base = visit.store.version_text(base_id)
    try:
        memory, theirs = visit.store.load(path)
    except NotFound:
        memory, theirs = None, ""
    merged = diff.merge(base, mine, theirs)
    newest = visit.store.history.log(path, limit=1)
    values = {
        "path": path,
        "version_id": "" if memory is None else memory.version_id,
        "by": newest[0] if newest else None,
        "theirs": differences.shown(path, base, None if memory is None else theirs),
        "mine": differences.shown(path, base, mine),
        "text": mine if merged.text is None else merged.text,
        "overlaps": len(merged.conflicts),
        "area": "tree",
    }
    return HtmlPage("conflict.html", values, 409, title=f"Conflict: {path}")


def create(visit: Visit) -> PageAnswer:
    """The form for a new memory; with POST, the new memory."""
    if visit.method != "POST":
        under = visit.query.get("under") or tool_path("")
        return _form(f"{parsed(under).text}/", "", "", is_new=True)
    path = parsed(visit.given("path").strip()).text
    return _saved(visit, visit.store.write(path, _typed(visit, ""), if_version=""))


def rename(visit: Visit) -> PageAnswer:
    """The form for another path; with POST, the rename."""
    path = parsed(visit.memory_path).text
    if visit.method != "POST":
        memory, _ = _load(visit, path)
        return HtmlPage("move.html", {"path": path, "memory": memory, "area": "tree"}, title=f"Rename {path}")
    target = parsed(visit.given("path").strip()).text
    return _saved(visit, visit.store.rename(path, target, if_version=visit.given("version")))


def delete(visit: Visit) -> PageAnswer:
    """The question; with POST, the deletion. The history is kept."""
    path = parsed(visit.memory_path).text
    if visit.method != "POST":
        memory, _ = _load(visit, path)
        return HtmlPage("delete.html", {"path": path, "memory": memory, "area": "tree"}, title=f"Delete {path}")
    written = visit.store.delete(path, if_version=visit.given("version"))
    return Redirect(visit.url("review") if written.is_proposed else visit.url("change", written.version_id))


def _saved(visit: Visit, written: Written) -> PageAnswer:
    if written.is_proposed:
        return Redirect(visit.url("activity"))
    return Redirect(visit.url("m", page_path(written.path)))


def _load(visit: Visit, path: str) -> tuple[Memory, str]:
    try:
        return visit.store.load(path)
    except NotFound:
        raise not_found("memory") from None


def _typed(visit: Visit, before: str) -> str:
    """The text of the form. Browsers send CRLF for each end of a line."""
    text = visit.given("text").replace("\r\n", "\n")
    return text.replace("\n", "\r\n") if "\r\n" in before else text


def _check_line_ends(text: str) -> None:
    if "\r" in text.replace("\r\n", "") or ("\r\n" in text and "\n" in text.replace("\r\n", "")):
        raise invalid("the text mixes ends of lines, which a browser would change; edit it with `retentive edit`")
