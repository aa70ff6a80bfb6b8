"""Backend that stores the files of deepagents as memories: `MemoryBackend`, for a route of `CompositeBackend`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from retentive.values.extras import pip_install

try:
    from deepagents.backends import utils
    from deepagents.backends.protocol import (
        BackendProtocol,
        DeleteResult,
        EditResult,
        FileDownloadResponse,
        FileInfo,
        FileUploadResponse,
        GlobResult,
        GrepResult,
        LsResult,
        ReadResult,
        WriteResult,
    )
except ImportError as error:
    raise ImportError(f"this module needs deepagents: {pip_install('deepagents')}") from error

from retentive.errors import InvalidInput, NotFound, PermissionDenied, ReadOnly, RetentiveError, StorageReadOnly
from retentive.integrations.documents import memories_below, until_no_conflict
from retentive.integrations.memory import ActorLike, MemoryLocation, open_store
from retentive.store import MemoryStore
from retentive.values.paths import ROOT

if TYPE_CHECKING:
    from deepagents.backends.protocol import FileData

    from retentive.storage.contract import Memory


P = ParamSpec("P")
R = TypeVar("R")


def _errors_in(result: Callable[..., R]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a method that returns an error as a `result`, as the protocol wants it."""

    def decorated(method: Callable[P, R]) -> Callable[P, R]:
        @wraps(method)
        def call(*args: P.args, **options: P.kwargs) -> R:
            try:
                return method(*args, **options)
            except (RetentiveError, ValueError) as error:  # the second is for a glob pattern
                return result(error=str(error))

        return call

    return decorated


class MemoryBackend(BackendProtocol):
    """Backend that stores the files of a deep agent as memories: the file `/a.md` is the memory `/memories/a.md`.

    Use it as a route: `CompositeBackend(default=StateBackend(), routes={"/memories/": MemoryBackend(...)})`. Do not use
    it as the default, because large tool results go to the default. Storage failures and mistakes of the model are
    returned as error results. An edit applies to the newest text, even if another writer has just changed it. Threads
    and processes may share a backend.
    """

    def __init__(
        self, memory: MemoryLocation | MemoryStore, *, store: str | None = None, actor: ActorLike = None
    ) -> None:
        """Open the memory store. Raises `InvalidInput` and storage errors."""
        self._store = open_store(memory, store, "deepagents", actor)

    @_errors_in(LsResult)
    def ls(self, path: str) -> LsResult:
        """List the files (with their sizes) and directories in a directory. Names of directories end with a slash."""
        base = _path(path)
        found: list[Memory] = []
        with suppress(NotFound):
            found = self._store.memories(base)
        files = [_info(each) for each in found if "/" not in each.path.removeprefix(f"{base}/") and each.path != base]
        deeper = (each.path.removeprefix(f"{base}/") for each in found if each.path.count("/") > base.count("/") + 1)
        names = {path.split("/")[0] for path in deeper}
        directories = [FileInfo(path=f"{_name(base).rstrip('/')}/{name}/", is_dir=True) for name in names]
        return LsResult(entries=sorted([*files, *directories], key=lambda each: each["path"]))

    @_errors_in(ReadResult)
    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Return lines of a file. Line ends are converted to LF."""
        memory, text = self._store.load(_path(file_path))
        return utils.slice_read_response(_data(memory, text), offset, limit)

    @_errors_in(WriteResult)
    def write(self, file_path: str, content: str) -> WriteResult:
        """Create a file, or replace the text of an existing file."""
        self._store.write(_path(file_path), content)
        return WriteResult(path=file_path)

    @_errors_in(EditResult)
    def edit(
        self,
        file_path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,
    ) -> EditResult:
        """Replace the only occurrence of a text. With `replace_all`, replace all its occurrences.

        If another writer changes the file at the same time, the edit is repeated with the newest text.
        """

        def edit() -> EditResult:
            memory, text = self._store.load(_path(file_path))
            found = utils.perform_string_replacement(text, old_string, new_string, replace_all)
            if isinstance(found, str) and "\r\n" in text and "\n" in old_string.replace("\r\n", ""):
                old, new = (each.replace("\r\n", "\n").replace("\n", "\r\n") for each in (old_string, new_string))
                found = utils.perform_string_replacement(text, old, new, replace_all)
            if isinstance(found, str):
                return EditResult(error=found)
            self._store.write(memory.path, found[0], if_version=memory.version_id)
            return EditResult(path=file_path, occurrences=found[1])

        return until_no_conflict(edit)

    @_errors_in(DeleteResult)
    def delete(self, file_path: str) -> DeleteResult:
        """Delete a file, or a directory with everything in it."""
        self._store.delete(_path(file_path))
        return DeleteResult(path=file_path)

    @_errors_in(GrepResult)
    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Find lines that contain a text, in the files at or below a path."""
        return utils.grep_matches_from_files(self._files(path), pattern, path or "/", glob, max_count=max_count)

    @_errors_in(GlobResult)
    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find the files below `path` that match the glob pattern `pattern`, newest first."""
        base = "/" if path is None else f"/{path.strip('/')}"
        is_match = utils.compile_grep_include_glob(pattern)
        found = self._memories(base)
        below = base.rstrip("/") + "/"
        matching = [each for each in found if is_match(_name(each.path).removeprefix(below).removeprefix("/"))]
        matching.sort(key=lambda each: each.updated_at, reverse=True)
        return GlobResult(matches=[_info(each) for each in matching])

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Save UTF-8 text files. If one file fails, the others are still saved."""
        return [FileUploadResponse(path=path, error=self._uploaded(path, content)) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Return the contents of files as bytes."""
        return [self._downloaded(path) for path in paths]

    def _uploaded(self, path: str, content: bytes) -> str | None:
        try:
            self._store.write(_path(path), content.decode())
        except UnicodeDecodeError:
            return "the file is not text in UTF-8"
        except RetentiveError as error:
            return _code(error)
        return None

    def _downloaded(self, path: str) -> FileDownloadResponse:
        try:
            return FileDownloadResponse(path=path, content=self._store.read(_path(path)).encode())
        except NotFound:
            is_directory = bool(self._memories(path))
            return FileDownloadResponse(path=path, error="is_directory" if is_directory else "file_not_found")
        except RetentiveError as error:
            return FileDownloadResponse(path=path, error=_code(error))

    def _memories(self, path: str) -> list[Memory]:
        """Return the memory at a path or, if the path is a directory, the memories below it."""
        base = _path(path)
        with suppress(NotFound):
            if base != ROOT:
                return [self._store.load(base)[0]]
        with suppress(NotFound):
            return self._store.memories(base)
        return []

    def _files(self, path: str | None) -> dict[str, FileData]:
        """Return the file at a path or, if the path is a directory, the files below it."""
        base = _path(path or "/")
        found: list[tuple[Memory, str]] = []
        with suppress(NotFound):
            found = list(memories_below(self._store, base))
        if not found and base != ROOT:
            with suppress(NotFound):
                found = [self._store.load(base)]
        return {_name(memory.path): _data(memory, text) for memory, text in found}


def _path(name: str) -> str:
    return f"{ROOT}/{name.strip('/')}".rstrip("/")


def _name(path: str) -> str:
    return path.removeprefix(ROOT) or "/"


def _info(memory: Memory) -> FileInfo:
    changed = memory.updated_at.isoformat()
    return FileInfo(path=_name(memory.path), is_dir=False, size=memory.size_bytes, modified_at=changed)


def _data(memory: Memory, text: str) -> FileData:
    created, changed = memory.created_at.isoformat(), memory.updated_at.isoformat()
    return {"content": text, "encoding": "utf-8", "created_at": created, "modified_at": changed}


def _code(error: RetentiveError) -> str:
    """Return the code that the deepagents protocol has for an error. If there is none, return the error message."""
    if isinstance(error, ReadOnly | PermissionDenied | StorageReadOnly):
        return "permission_denied"
    return "invalid_path" if isinstance(error, InvalidInput) and error.code == "invalid_path" else str(error)
