"""`edit`: edit a memory in the user's editor. If the edited text cannot be saved, its file is kept."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import click

from retentive.cli import output
from retentive.cli.location import Location
from retentive.cli.parameters import decoded
from retentive.cli.performed import CHANGE, Done, end, perform_text
from retentive.engine.handlers import ABSENT, check_free
from retentive.engine.operation import AuditOnly, Read
from retentive.engine.queries import read_fact
from retentive.errors import NotFound, Refused, RetentiveError
from retentive.remote import is_remote
from retentive.storage.contract import Entry, Memory
from retentive.store import MemoryStore, core_of
from retentive.values.commands import Write
from retentive.values.paths import MemoryPath
from retentive.values.replies import REPLIES, Reply

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}", re.ASCII)
_NOT_SAVED = "No change; nothing was saved."


@output.command(json=CHANGE)
@click.argument("path")
def edit(location: Location, path: str) -> None:
    """Edit a memory in your editor, and save it as one change.

    The editor is $VISUAL, $EDITOR or vi. If the memory does not exist, it is created, unless you save an empty text. If
    somebody else changed the memory in the meantime, nothing is saved. Your text is then kept in a file, and the name
    of the file is printed.
    """
    end(_edited(location, path))


def _edited(location: Location, path: str) -> Done:
    found = _editable(location, path)
    if isinstance(found, Reply):
        return Done(found, path)
    before, memory = found.data or b"", found.memory
    draft, is_saved = Draft.of(before, _file_name(path)), False
    try:
        draft.edit()
        data = draft.read()
        if data == before:
            done = Done(Reply(_NOT_SAVED), path)
        else:
            text = decoded(data)
            is_saved = True
            with location.created() as store:
                version_id = ABSENT if memory is None else memory.version_id
                done = perform_text(store, Write, path, text, version_id)
    except RetentiveError as error:
        done = Done(output.failure(error), path)
    except BaseException:
        click.echo(f"Your text is kept in {draft.path}", err=True)
        raise
    finally:
        if not is_saved:  # a saved change has an audit entry that covers the read
            _note_read(location, path, memory)
    if done.reply.is_error and draft.differs(before):
        return replace(done, reply=replace(done.reply, text=f"{done.reply.text}\nYour text is kept in {draft.path}"))
    shutil.rmtree(draft.directory, ignore_errors=True)  # removes files of the editor too
    return done


def _note_read(location: Location, path: str, memory: Memory | None) -> None:
    """Write an audit entry for reading the memory, because no change was saved. A server writes this entry itself."""
    with suppress(NotFound), location.existing() as store:
        if not is_remote(store):
            core_of(store).result_of(AuditOnly("load", None, (MemoryPath.parse(path),), read_fact(memory)))


def _editable(location: Location, path: str) -> Entry | Reply:
    """Return the entry of the memory to edit. If the memory does not exist, the entry is empty.

    Returns an error reply if no memory can be at this path.
    """
    try:
        with location.existing(sweep=True) as store:
            if is_remote(store):
                return _present(store, path)
            core = core_of(store)
            named: tuple[MemoryPath, ...] = ()
            try:
                named = (MemoryPath.parse(path),)
                entry = (
                    Entry(below=True)
                    if named[0].is_root
                    else core.peek(Read("load", lambda found: found.get(named[0].text)))
                )
                check_free(entry)
            except Refused as refusal:
                return core.reply(AuditOnly("write", refusal, named), core.invocation())
            return entry
    except NotFound:  # the location or the memory store does not exist; saving creates it
        try:
            check_free(Entry(below=MemoryPath.parse(path).is_root))
        except Refused as refusal:
            return REPLIES.error(refusal.key, {"path": path} | refusal.values)
        return Entry()


def _present(store: MemoryStore, path: str) -> Entry | Reply:
    """Return the entry of a memory on a server, or an error reply."""
    try:
        memory, text = store.load(path)
    except NotFound:
        return Entry()
    except RetentiveError as error:
        return output.failure(error)
    return Entry(memory, text.encode())


@dataclass(frozen=True, slots=True)
class Draft:
    """File with the text to edit. It is in a directory of its own that only the user can read.

    Backup files that the editor writes are therefore private too.
    """

    directory: str
    path: str

    @classmethod
    def of(cls, data: bytes, name: str) -> Draft:
        """Create a draft with this content and file name. Raises `RetentiveError` if the file cannot be created."""
        try:
            directory = tempfile.mkdtemp(prefix="retentive-")
            path = os.path.join(directory, name)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
        except OSError as error:
            message = f"cannot create a temporary file in {tempfile.gettempdir()}: {error.strerror}; set TMPDIR"
            raise RetentiveError(message) from None
        return cls(directory, path)

    def edit(self) -> None:
        """Run the editor, and wait until it exits. Raises `RetentiveError` if it cannot start, or reports an error."""
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        try:
            with _interrupts_ignored():
                command = [*shlex.split(editor), self.path]
                status = subprocess.run(command, check=False).returncode  # noqa: S603 - chosen by the user
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise RetentiveError(f"cannot start the editor {editor!r}: {why}; set VISUAL or EDITOR") from None
        if status != 0:
            raise RetentiveError(f"the editor {editor!r} exited with status {status}; nothing was saved")

    def read(self) -> bytes:
        """Return the content of the draft. Raises `RetentiveError` if the file cannot be read."""
        try:
            with open(self.path, "rb") as file:
                return file.read()
        except OSError as error:
            raise RetentiveError(f"cannot read the edited file {self.path}: {error.strerror}") from None

    def differs(self, before: bytes) -> bool:
        """Return whether the draft differs from `before`. Returns True if it exists but cannot be read."""
        try:
            return self.read() != before
        except RetentiveError:
            return os.path.lexists(self.path)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Context manager: while the block runs, this process ignores Ctrl-C. Only the editor reacts to it.

    The terminal sends Ctrl-C to both processes. This process ignores it with a handler that does nothing. With
    SIG_IGN, the editor would inherit the setting and ignore Ctrl-C too.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _file_name(path: str) -> str:
    """Return the file name of the draft. It is the name of the memory, so that the editor recognizes the file type.

    If the name of the memory is not a plain name, the file name is `memory.txt`. Some names are dangerous, because
    editors execute files such as `.dir-locals.el`.
    """
    name = path.rstrip("/").rpartition("/")[2]
    return name if _PLAIN_NAME.fullmatch(name) else "memory.txt"
