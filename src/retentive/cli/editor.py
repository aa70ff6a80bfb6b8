"""`edit`: a memory in the person's own editor, saved as one change. What was written is never lost."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import click

from retentive.cli import output
from retentive.cli.location import Location, pass_location
from retentive.cli.parameters import decoded
from retentive.errors import NotFound, Refused, RetentiveError
from retentive.values.paths import MemoryPath
from retentive.values.replies import LANGUAGES, Reply

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}", re.ASCII)
_NOT_SAVED = "No change: nothing was saved."


@click.command(cls=output.Command)
@click.argument("path")
@output.json_option
@pass_location
def edit(location: Location, path: str, *, as_json: bool) -> None:
    """Change a memory in your editor, as one change.

    The editor is $VISUAL or $EDITOR, else vi. A PATH that does not exist is made, unless the text stays empty. If the
    memory was changed by somebody else meanwhile, nothing is saved; what was written is kept in a file, and its name
    is said.
    """
    output.end(_edited(location, path), as_json=as_json)


def _edited(location: Location, path: str) -> Reply:
    before = _present(location, path)
    if isinstance(before, Reply):
        return before
    draft = Draft.of(before.data, _file_name(path))
    try:
        draft.let_edit()
        data = draft.read()
        if data == before.data:
            draft.remove()
            return Reply(_NOT_SAVED)
        reply = _saved(location, path, decoded(data), before.version_id)
    except RetentiveError as error:
        reply = output.failure(error)
    except BaseException:
        click.echo(f"What you wrote is kept in {draft.path}", err=True)
        raise
    return draft.done(reply, before.data)


@dataclass(frozen=True, slots=True)
class _Before:
    """What stands at the path when the editor opens: nothing, if `version_id` is None."""

    data: bytes
    version_id: str | None


def _present(location: Location, path: str) -> _Before | Reply:
    """What there is to edit, or the reply that says why there is nothing to."""
    try:
        at = MemoryPath.parse(path)
        return _editable(location, at)
    except Refused as refusal:
        return LANGUAGES[location.language].error(refusal.key, {"path": path} | refusal.values)


def _editable(location: Location, at: MemoryPath) -> _Before:
    if at.is_root:
        raise Refused("exists")
    try:
        with location.existing(sweep=True) as store:
            look = store.read_as(lambda snapshot: snapshot.get(at.text), None)
    except NotFound:  # no place, no memory store; they are made when there is something to save
        return _Before(b"", None)
    if look.below:
        raise Refused("exists")
    if look.above is not None:
        raise Refused("not_a_directory", ancestor=look.above)
    if look.memory is None:
        return _Before(b"", None)
    return _Before(look.data or b"", look.memory.version_id)


def _saved(location: Location, path: str, text: str, if_version: str | None) -> Reply:
    with location.created() as store:
        return store.save(path, text, if_version=if_version)


@dataclass(frozen=True, slots=True)
class Draft:
    """A file in a directory of its own, both private, so that an editor's backups beside it are private too."""

    directory: str
    path: str

    @classmethod
    def of(cls, data: bytes, name: str) -> Draft:
        """A new draft with this content. Raises `RetentiveError` if there is no place for temporary files."""
        try:
            directory = tempfile.mkdtemp(prefix="retentive-")
            path = os.path.join(directory, name)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
        except OSError as error:
            raise RetentiveError(f"no temporary file could be made for the editor: {error.strerror}") from None
        return cls(directory, path)

    def let_edit(self) -> None:
        """Run the editor until it ends. Raises `RetentiveError` if it did not start or says it failed."""
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        try:
            with _interrupts_left_to_the_editor():
                command = [*shlex.split(editor), self.path]
                status = subprocess.run(command, check=False).returncode  # noqa: S603 - the person's own choice
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise RetentiveError(f"the editor {editor!r} could not be started: {why}") from None
        if status != 0:
            raise RetentiveError(f"the editor ended with status {status}; nothing was saved")

    def read(self) -> bytes:
        """The content now. Raises `RetentiveError` if the editor took the file away."""
        try:
            with open(self.path, "rb") as file:
                return file.read()
        except OSError as error:
            raise RetentiveError(f"the edited file could not be read: {error.strerror}") from None

    def done(self, reply: Reply, before: bytes) -> Reply:
        """Remove the draft once it is saved; a refused one that was changed stays, and the reply says where."""
        if reply.is_error and self._changed(before):
            return replace(reply, text=f"{reply.text}\nWhat you wrote is kept in {self.path}")
        self.remove()
        return reply

    def remove(self) -> None:
        """Remove the file and all that an editor left beside it."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _changed(self, before: bytes) -> bool:
        try:
            return self.read() != before
        except RetentiveError:
            return os.path.lexists(self.path)


@contextmanager
def _interrupts_left_to_the_editor() -> Iterator[None]:
    """Ctrl-C in an editor is for the editor, but the terminal sends it to all.

    A handler that does nothing, as an ignored signal would stay ignored in the editor.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _file_name(path: str) -> str:
    """The memory's own name where it is a plain one, so that the editor knows the kind of text.

    Not names such as `.dir-locals.el`, which an editor would obey.
    """
    name = path.rstrip("/").rpartition("/")[2]
    return name if _PLAIN_NAME.fullmatch(name) else "memory.txt"
