"""`edit`: edit a memory in the user's editor. If the edited text cannot be saved, its file is kept."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import click

from retentive.cli import output
from retentive.cli.changes import CHANGE, Done, end, perform
from retentive.cli.location import Location
from retentive.cli.options import command
from retentive.cli.parameters import decoded, named
from retentive.engine.handlers import ABSENT
from retentive.errors import NotFound, RetentiveError
from retentive.values.replies import Reply

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}", re.ASCII)


@command(json=CHANGE)
@click.argument("path")
def edit(location: Location, path: str) -> None:
    """Edit a memory in your editor, and save it as one change.

    The editor is $VISUAL, $EDITOR or vi. If the memory does not exist, it is created, unless you save an empty text. If
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
    end(_edited(location, path, before, version_id))


def _edited(location: Location, path: str, before: bytes, version_id: str) -> Done:
    file = _draft(before, path)
    try:
        _run_editor(file)
        try:
            data = file.read_bytes()
        except OSError as error:
            raise RetentiveError(f"cannot read the edited file {file}: {error.strerror}") from None
        if data == before:
            done = Done(Reply("No change; nothing was saved."), path)
        else:
            text = decoded(data)
            with location.created() as store:
                done = perform(store, "write", version_id, path=path, file_text=text)
    except RetentiveError as error:
        done = Done(output.failure(error), path)
    except BaseException:
        output.note(f"Your text is kept in {file}")
        raise
    if done.reply.is_error and os.path.lexists(file) and not (file.is_file() and file.read_bytes() == before):
        return replace(done, reply=replace(done.reply, text=f"{done.reply.text}\nYour text is kept in {file}"))
    shutil.rmtree(file.parent, ignore_errors=True)  # removes files of the editor too
    return done


def _draft(data: bytes, path: str) -> Path:
    """Write a text to a file in a directory of its own that only the user can read, as are backups of the editor.

    The file has the name of the memory, so that the editor recognizes its type. Some names are dangerous, because
    editors execute files such as `.dir-locals.el`; such a file is called `memory.txt`.
    """
    name = path.rstrip("/").rpartition("/")[2]
    try:
        file = Path(tempfile.mkdtemp(prefix="retentive-"), name if _PLAIN_NAME.fullmatch(name) else "memory.txt")
        file.touch(0o600)
        file.write_bytes(data)
    except OSError as error:
        message = f"cannot create a temporary file in {tempfile.gettempdir()}: {error.strerror}; set TMPDIR"
        raise RetentiveError(message) from None
    return file


def _run_editor(file: Path) -> None:
    """Run the editor, and wait until it exits. Raises `RetentiveError` if it cannot start, or reports an error.

    The terminal sends Ctrl-C to both processes, and only the editor reacts: this process has a handler that does
    nothing. With SIG_IGN, the editor would inherit the setting and ignore Ctrl-C too.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    handler = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        command = [*shlex.split(editor), str(file)]
        status = subprocess.run(command, check=False).returncode  # noqa: S603 - chosen by the user
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RetentiveError(f"cannot start the editor {editor!r}: {why}; set VISUAL or EDITOR") from None
    finally:
        signal.signal(signal.SIGINT, handler)
    if status != 0:
        raise RetentiveError(f"the editor {editor!r} exited with status {status}; nothing was saved")
