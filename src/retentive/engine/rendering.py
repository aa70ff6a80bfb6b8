"""Rendering of outcomes as replies to models. No other module turns results into sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from retentive.engine.handlers import CommandResult, RunCommand, RunView, Viewed
from retentive.engine.operation import AuditOnly, Operation, Outcome
from retentive.errors import Refused, RetentiveError
from retentive.values.commands import (
    Append,
    Clear,
    Create,
    Delete,
    Insert,
    Rename,
    StrReplace,
    View,
    Write,
    WriteCommand,
    paths_of,
)
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.replies import Replies, Reply, redact_echoes

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore

STORAGE_REPLIES = {
    "permission_denied": "permission_denied",
    "storage_read_only": "storage_read_only",
    "store_full": "store_full",
    "unavailable": "unavailable",
    "outcome_unknown": "outcome_unknown",
    "damaged": "damaged",
    "locked": "locked",
    "conflict": "unavailable",
    "closed": "closed",
    "not_found": "erased",  # the whole memory store was erased
    "unknown_schema": "unknown_schema",
}
"""Name of the reply template for each error code of a storage failure. Errors with other codes are raised."""
OF_BACKENDS = {"path_taken", "path_folds"}
"""Names of reply templates for refusals by a backend. Such a refusal contains the canonical path of a memory."""


_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class Say:
    """Renderer of reply templates for one invocation. It masks sensitive values in input that a reply repeats."""

    __slots__ = ("_redact", "_replies")

    def __init__(self, replies: Replies, redact: Callable[[str], str]) -> None:
        self._replies = replies
        self._redact = redact

    def __call__(self, key: str, **values: object) -> str:
        """Render the template with the name `key`. `values` replace its placeholders."""
        return self._replies.phrase(key, redact_echoes(values, self._redact))

    def error(self, key: str, values: dict[str, object]) -> Reply:
        """Render the template with the name `key` as an error reply. `values` replace its placeholders."""
        return self._replies.error(key, redact_echoes(values, self._redact))


def rendered(core: StoreCore, operation: Operation[Any], outcome: Outcome[Any]) -> Reply:
    """Render an outcome as a reply. An error that is neither a refusal nor a storage failure is raised instead."""
    say = Say(core.replies, partial(core.redacted, settings=outcome.settings))
    result, error = outcome.result, outcome.error
    if error is not None:
        # Models are told to view images, so the refusal of a view of one says more.
        if isinstance(operation, RunView) and isinstance(error, Refused) and "is_file" in error.values:
            error = Refused("view_image") if operation.command.path.text.lower().endswith(_IMAGES) else error
        return error_reply(say, error, paths_named(operation))
    if isinstance(result, Viewed) and isinstance(operation, RunView):
        return _view_reply(say, operation.command, result)
    if not isinstance(result, CommandResult) or not isinstance(operation, RunCommand):
        raise TypeError(f"an operation of the type {type(operation).__name__} cannot be rendered as a reply")
    lines = [_command_text(say, operation.command, result), *notes_of(core, outcome)]
    return Reply("\n".join([*lines, core.replies.awaits_review] if outcome.proposed else lines))


def notes_of(core: StoreCore, outcome: Outcome[CommandResult]) -> tuple[str, ...]:
    """Return the notes that guards added to a change, as sentences."""
    say = Say(core.replies, partial(core.redacted, settings=outcome.settings))
    return tuple(say(note.key, **note.values) for note in outcome.value().notes)


def error_reply(say: Say, error: RetentiveError, paths: Sequence[MemoryPath]) -> Reply:
    """Render a refusal or a storage failure as a reply. Raise any other error. `paths` are the paths in the request."""
    shown: dict[str, object] = {"path": paths[-1].written}
    if len(paths) > 1:
        shown |= {"old_path": paths[0].written, "new_path": paths[1].written}
    if not isinstance(error, Refused):
        if error.code not in STORAGE_REPLIES:
            raise error
        return say.error(STORAGE_REPLIES[error.code], shown)
    values = shown | error.values
    if error.key in OF_BACKENDS:
        canonical = str(values["path"])
        values["path"] = {path.text: path.written for path in paths}.get(canonical, paths[0].outward(canonical))
    return say.error(error.key, values)


def paths_named(operation: Operation[Any] | None) -> tuple[MemoryPath, ...]:
    """Return the paths of an operation, as written in the request. An error reply names the last of these paths."""
    match operation:
        case RunView(command=command):
            return (command.path,)
        case RunCommand(command=command):
            return paths_of(command)
        case AuditOnly(written=written) if written:
            return written
    return (MemoryPath.known(ROOT),)


def _view_reply(say: Say, command: View, viewed: Viewed) -> Reply:
    page = viewed.page
    if page is None:
        return listing_reply(say, command.path, viewed)
    lines = [say("file_header", path=command.path.written)]
    if page.numbered:
        lines.append(page.numbered)
    if page.notice is not None:
        lines.append(say(page.notice.key, **page.notice.values))
    if viewed.is_unconfirmed:
        lines.append(say("unconfirmed"))
    return Reply("\n".join(lines))


def listing_reply(say: Say, path: MemoryPath, viewed: Viewed) -> Reply:
    """Render the view of a directory as a reply."""
    shown = viewed.listing
    assert shown is not None
    lines = [say("directory_header", path=path.outward(path.text)), *shown.rows]
    if len(shown.rows) - 1 < shown.total:
        lines.append(say("rows_cut", shown=len(shown.rows) - 1, total=shown.total))
    return Reply("\n".join(lines))


def _command_text(say: Say, command: WriteCommand, result: CommandResult) -> str:
    match command:
        case StrReplace():
            return say("edited") if result.snippet is None else f"{say('edited_snippet')}\n{result.snippet}"
        case Rename():
            return say("renamed", old_path=command.old_path.written, new_path=command.new_path.written)
        case Clear():
            return say("cleared")
        case Delete():
            return say("deleted", path=command.path.written)
        case Create():
            return say("created", path=command.path.written)
        case Insert() | Write() | Append():
            return say("created" if result.is_new else "inserted", path=command.path.written)
