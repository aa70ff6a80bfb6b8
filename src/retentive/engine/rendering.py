"""Rendering of outcomes as replies to models. No other module turns results into sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from retentive.engine.citations import notes_on
from retentive.engine.handlers import Viewed
from retentive.engine.operation import CommandResult, Operation, Outcome
from retentive.errors import Refused, RetentiveError
from retentive.values.commands import Append, Clear, Create, Delete, Insert, Rename, StrReplace, View, Write
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.replies import REPLIES, Reply, redact_echoes

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore

_SAME = (
    "permission_denied storage_read_only store_full unavailable outcome_unknown damaged locked closed unknown_schema"
)
STORAGE_REPLIES = {code: code for code in _SAME.split()} | {"conflict": "unavailable", "not_found": "erased"}
"""Name of the reply template for each error code of a storage failure; `not_found` is that of the whole store.

Errors with other codes are raised."""
OF_BACKENDS = {"path_taken", "path_folds"}
"""Names of reply templates for refusals by a backend. Such a refusal contains the canonical path of a memory."""
_SENTENCES: Mapping[object, str] = {Create: "created", Delete: "deleted", Rename: "renamed", Clear: "cleared"}
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_ROOT = (MemoryPath.known(ROOT),)


class Renderer(Protocol):
    """What a reply needs of the core of a store: the mask of sensitive values."""

    def redacted(self, text: str) -> str:
        """Return `text` with its sensitive values masked."""


def rendered(core: StoreCore, operation: Operation[Any], outcome: Outcome[Any]) -> Reply:
    """Render an outcome as a reply. An error that is neither a refusal nor a storage failure is raised instead.

    Only errors mask the input that they repeat: a path that was accepted has no sensitive value.
    """
    say, result, error = REPLIES.phrase, outcome.result, outcome.error
    command, paths = operation.command, paths_named(operation)
    if error is not None:
        # Models are told to view images, so the refusal of a view of one says more.
        if isinstance(command, View) and isinstance(error, Refused) and "is_file" in error.values:
            error = Refused("view_image") if command.path.text.lower().endswith(_IMAGES) else error
        return error_reply(core, error, paths)
    if isinstance(result, Viewed):
        return view_reply(paths[0], result)
    if not isinstance(result, CommandResult):
        raise TypeError(f"the operation {operation.name} cannot be rendered as a reply")
    match command:
        case StrReplace():
            key = "edited" if result.snippet is None else "edited_snippet"
        case Insert() | Write() | Append():
            key = "created" if result.is_new else "inserted"
        case _:
            key = _SENTENCES[type(command)]
    lines = [say(key, {"path": paths[-1].written, "old_path": paths[0].written, "new_path": paths[-1].written})]
    if result.snippet is not None:
        lines.append(result.snippet)
    lines += [say(note.key, note.values) for note in result.notes]
    return Reply("\n".join([*lines, REPLIES.awaits_review] if outcome.proposed else lines))


def error_reply(core: Renderer, error: RetentiveError, paths: Sequence[MemoryPath] = _ROOT) -> Reply:
    """Render a refusal or a storage failure as a reply. Raise any other error. `paths` are the paths in the request."""
    values: dict[str, object] = {"path": paths[0 if error.code == "damaged" else -1].written}
    if len(paths) > 1:
        values |= {"old_path": paths[0].written, "new_path": paths[1].written}
    if isinstance(error, Refused):
        key = error.key
        values |= error.values
        if key in OF_BACKENDS:
            canonical = str(values["path"])
            values["path"] = {path.text: path.written for path in paths}.get(canonical, paths[0].outward(canonical))
    elif error.code in STORAGE_REPLIES:
        key = STORAGE_REPLIES[error.code]
    else:
        raise error
    return REPLIES.error(key, redact_echoes(values, core.redacted))


def paths_named(operation: Operation[Any] | None) -> tuple[MemoryPath, ...]:
    """Return the paths of an operation, as written in the request. An error reply names the last of these paths."""
    return (operation.paths if operation is not None else ()) or _ROOT


def view_reply(path: MemoryPath, viewed: Viewed) -> Reply:
    """Render the view of a memory or a directory as a reply."""
    if viewed.page is not None:
        numbered, notice = viewed.page
        lines = [REPLIES.phrase("file_header", {"path": path.written}), *([numbered] if numbered else [])]
        if notice is not None:
            lines.append(REPLIES.phrase(notice.key, notice.values))
        if viewed.is_unconfirmed:
            lines.append(REPLIES.phrase("unconfirmed", {}))
        lines += [REPLIES.phrase(note.key, note.values) for note in notes_on(viewed.citations)]
        return Reply("\n".join(lines))
    listing = viewed.listing
    assert listing is not None
    lines = [REPLIES.phrase("directory_header", {"path": path.outward(path.text)}), *listing.rows]
    shown = len(listing.rows) - 1
    if shown < listing.total:
        lines.append(REPLIES.phrase("rows_cut", {"shown": shown, "total": listing.total}))
    return Reply("\n".join(lines))
