"""`edit`: edit a memory in the user's editor. If the edited text cannot be saved, its file is kept."""

from __future__ import annotations

import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import click

from retentive.cli import output
from retentive.cli.changes import CHANGE, end, perform, result
from retentive.cli.location import Location, failure
from retentive.cli.options import command
from retentive.cli.parameters import decoded, named, path_argument
from retentive.engine.handlers import ABSENT
from retentive.errors import NotFound, RetentiveError
from retentive.values.replies import Reply


@command(json=CHANGE)
@path_argument("path")
def edit(location: Location, path: str) -> None:
    """Edit a memory in your editor, and save it as one change.

    The editor is $VISUAL or $EDITOR. If the memory does not exist, it is created, unless you save an empty text. If
    somebody else changed the memory in the meantime, nothing is saved. Your text is then kept in a file, and the name
    of the file is printed.
    """
    before, version_id = b"", ABSENT
    try:
        with location.existing(sweep=True) as store:
            path = named(store, path)
            try:
                memory, text = store.load(path)
                before, version_id = text.encode(), memory.version_id
            except NotFound:
                if store.memories(path):  # a directory
                    end(perform(store, "create", path=path, file_text=""))
    except NotFound:  # the location or the memory store does not exist; saving creates it
        pass
    suffix = path.rpartition(".")[2]  # so that the editor recognizes the type; no editor executes a file of this name
    try:
        folder = tempfile.mkdtemp(prefix="retentive-")  # only the user can read it, and backups of the editor in it
        file = Path(folder, f"memory.{suffix if suffix.isalnum() and suffix.isascii() else 'txt'}")
        file.touch(0o600)
        file.write_bytes(before)
    except OSError as error:
        raise RetentiveError(f"no temporary file in {tempfile.gettempdir()}: {error.strerror}; set TMPDIR") from None
    try:
        value = _edited(location, path, file, before, version_id)
    except RetentiveError as error:
        value = result(failure(error), path, ())
    except BaseException:
        output.note(f"Your text is kept in {file}")
        raise
    if value["is_error"] and file.is_file() and file.read_bytes() != before:
        value["text"] += f"\nYour text is kept in {file}"
    else:
        shutil.rmtree(file.parent, ignore_errors=True)  # removes files of the editor too
    end(value)


def _edited(location: Location, path: str, file: Path, before: bytes, version_id: str) -> dict[str, Any]:
    """Run the editor, and save the text that it wrote to the file. The editor is not run in a shell.

    The terminal sends Ctrl-C to both processes, and only the editor reacts: this process has a handler that does
    nothing. With SIG_IGN, the editor would inherit the setting and ignore Ctrl-C too.
    """
    handler = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        click.edit(filename=str(file))
        data = file.read_bytes()
    except (OSError, ValueError, click.ClickException) as error:
        cause = error.__cause__ or error  # click quotes the error of a program that cannot be started
        why = f"{cause.filename}: {cause.strerror}" if isinstance(cause, OSError) else error
        raise RetentiveError(f"{why}; nothing was saved") from None
    finally:
        signal.signal(signal.SIGINT, handler)
    if data == before:
        return result(Reply("No change; nothing was saved."), path, ())
    text = decoded(data)
    with location.created() as store:
        return perform(store, "write", version_id, path=path, file_text=text)
