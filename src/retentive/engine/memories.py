"""Methods that `MemoryStore` and `Mounts` share. Applications use these methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from retentive.engine.rendering import error_reply
from retentive.errors import InvalidInput, Refused, error_of
from retentive.values.commands import Append, Command, Create, Write, parse
from retentive.values.paths import ROOT
from retentive.values.records import By

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore
    from retentive.values.records import Memory, Written
    from retentive.values.replies import Reply


class WriteOptions(By, total=False):
    """Keyword arguments of the methods that write."""

    if_version: str | None


class CallOptions(By, total=False):
    """Keyword arguments of `execute`."""

    tool_use_id: str | None
    run: str | None


class MemoryTree(ABC):
    """Tree of memories: a `MemoryStore` or a `Mounts`. Threads may share it.

    Models use `execute`, which returns errors as replies. Applications use the other methods. The other methods
    return values, and raise a `RetentiveError` that has the text and code of the error reply.

    Each method that writes returns a `Written` after the change is durable. `actor`, `source` and `session` are
    recorded with the change (docs/review.md). The default of `actor` is the actor with which the location was opened.
    If `if_version` is given but is not the id of the newest version of the memory, the method raises `Conflict` and
    changes nothing.
    """

    _core: StoreCore

    @abstractmethod
    def execute(self, command: object, **options: Unpack[CallOptions]) -> Reply:
        """Run a command and return the reply. `command` is a parsed command or the raw input of a tool call."""

    @abstractmethod
    def clear(self, **options: Unpack[By]) -> Reply:
        """Delete all memories."""

    @abstractmethod
    def through(self, integration: str) -> MemoryTree:
        """Return an object for the same memories. Audit entries for calls of this object contain `integration`."""

    @abstractmethod
    def directory(self) -> str | None:
        """Directory in which the memories are plain files; None for other backends."""

    @abstractmethod
    def load(self, path: str) -> tuple[Memory, str]:
        """Return the memory at `path` and its text. Raises `NotFound`."""

    @abstractmethod
    def _written(self, command: Command, if_version: str | None, by: By) -> Written:
        """Run a command that writes. Raises `RetentiveError`."""

    def create(self, path: str, text: str, **by: Unpack[By]) -> Written:
        """Create a memory. Raises `AlreadyExists`, unless the setting `create_overwrites` is on."""
        return self._write("create", {"path": path, "file_text": text}, **by)

    def write(self, path: str, text: str, **options: Unpack[WriteOptions]) -> Written:
        """Create a memory, or replace its whole text. If the memory already has this text, no version is added."""
        return self._write("write", {"path": path, "file_text": text}, **options)

    def append(self, path: str, text: str, **options: Unpack[WriteOptions]) -> Written:
        """Append a text as new lines to a memory, or create the memory with this text."""
        return self._write("append", {"path": path, "file_text": text}, **options)

    def edit(self, path: str, old: str, new: str, **options: Unpack[WriteOptions]) -> Written:
        """Replace the only occurrence of `old` in a memory. Raises `NotFound`, `NoMatch` and `ManyMatches`."""
        return self._write("str_replace", {"path": path, "old_str": old, "new_str": new}, **options)

    def insert(self, path: str, line: int, text: str, **options: Unpack[WriteOptions]) -> Written:
        """Insert a text as new lines after line `line`; 0 inserts at the top. Raises `NotFound` and `OutOfRange`."""
        return self._write("insert", {"path": path, "insert_line": line, "insert_text": text}, **options)

    def delete(self, path: str, **options: Unpack[WriteOptions]) -> Written:
        """Delete a memory, or a directory with all memories below it. Raises `NotFound`."""
        return self._write("delete", {"path": path}, **options)

    def rename(self, path: str, new_path: str, **options: Unpack[WriteOptions]) -> Written:
        """Move a memory or a directory with its history. Raises `NotFound` and `AlreadyExists`."""
        return self._write("rename", {"old_path": path, "new_path": new_path}, **options)

    def view(self, path: str = ROOT, *, view_range: tuple[int, int] | None = None) -> str:
        """Return what a model sees when it views a directory, a memory or a range of lines. Raises `NotFound`."""
        command = {"command": "view", "path": path, "view_range": view_range}
        return self.execute(command).raise_for_error().text

    def read(self, path: str) -> str:
        """Return the text of the memory at `path`. Raises `NotFound`."""
        return self.load(path)[1]

    def _write(
        self, name: str, fields: Mapping[str, object], *, if_version: str | None = None, **by: Unpack[By]
    ) -> Written:
        if not isinstance(if_version, str | None):
            raise InvalidInput(f"`if_version` must be the id of a version, not {type(if_version).__name__}")
        if None in fields.values():
            raise InvalidInput("a path, a line or a text must not be None")
        try:
            command = parse_for_applications({"command": name, **fields})
        except Refused as refusal:
            said = error_reply(self._core, refusal)
            raise error_of(said.text, said.code) from None
        return self._written(command, if_version, by)


def parse_for_applications(raw: object) -> Command:
    """Parse the input of a tool call. Its command may also be `write` or `append`, with the same fields as `create`.

    Raises `Refused`.
    """
    name = raw.get("command") if isinstance(raw, Mapping) else None
    if not isinstance(raw, Mapping) or name not in ("write", "append"):  # a model may send a list, which has no hash
        return parse(raw)
    checked = parse({**raw, "command": "create"})
    assert isinstance(checked, Create)
    return (Write if name == "write" else Append)(checked.path, checked.file_text)
