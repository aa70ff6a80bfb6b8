"""Import source: the committed files of a revision in a Git repository, read by `git` itself.

Nothing in the repository is run or changed: no hooks, no file monitor, no filters, no fetching of missing objects.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from typing import IO, NamedTuple

from retentive.errors import InvalidInput, NotFound, Unavailable
from retentive.transfer.sources import LAYOUT, MAX_FILE_BYTES, TOO_LARGE, Item, refused

_QUIET = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "protocol.allow=never")
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_KINDS = {"120000": "a symbolic link", "160000": "a submodule"}
_FILES = {"100644", "100755", "100664"}


class _Entry(NamedTuple):
    mode: str
    object: str
    size: int
    name: str


class GitSource:
    """The files of a tree. `revision` is a commit, a tag, a branch, or `commit:directory`.

    If the tree has a directory `memories`, only the files in it. Raises `InvalidInput`, `NotFound`, `Unavailable`.
    """

    def __init__(self, path: str, revision: str) -> None:
        git = shutil.which("git")
        if git is None:
            raise NotFound("the program `git` was not found: install it, or import a directory of files")
        if not revision or revision.startswith("-") or "\0" in revision:
            raise InvalidInput("the Git revision is invalid")
        if not os.path.isdir(path):
            raise NotFound("the Git repository does not exist")
        self._command = [git, "-C", path, *_QUIET]
        self._revision = revision
        entries = list(self._listed())
        self.inside = LAYOUT if any(entry.name.startswith(LAYOUT + "/") for entry in entries) else None
        start = f"{LAYOUT}/" if self.inside else ""
        self._entries = [
            entry._replace(name=entry.name[len(start) :]) for entry in entries if entry.name.startswith(start)
        ]

    def count(self) -> int:
        """The number of files."""
        return len(self._entries)

    def items(self) -> Iterator[Item]:
        """All files. Read each one before asking for the next."""
        with self._run("cat-file", "--batch") as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for entry in self._entries:
                if entry.mode not in _FILES:
                    yield refused(entry.name, _KINDS.get(entry.mode, "not a regular file"))
                elif entry.size > MAX_FILE_BYTES:
                    yield refused(entry.name, TOO_LARGE)
                else:
                    yield Item(entry.name, partial(_blob, process.stdin, process.stdout, entry))

    def _listed(self) -> Iterator[_Entry]:
        listing = ("ls-tree", "-r", "-l", "-z", "--full-tree", self._revision)
        with self._run(*listing, stderr=subprocess.PIPE) as process:
            out, errors = process.communicate()
        if process.returncode != 0:
            raise _failure(errors)
        for line in out.split(b"\0")[:-1]:
            facts, _, name = line.partition(b"\t")
            mode, _, number, size = facts.decode().split()
            yield _Entry(mode, number, int(size) if size != "-" else 0, os.fsdecode(name))

    def _run(self, *arguments: str, stderr: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start git. It ends at the end of its input, which the end of a `with` block closes."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _ENVIRONMENT
        command = [*self._command, *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, env=environment)  # noqa: S603 - no shell


def _blob(asked: IO[bytes], answered: IO[bytes], entry: _Entry) -> bytes | str:
    try:
        asked.write(entry.object.encode() + b"\n")
        asked.flush()
    except OSError:
        raise Unavailable("git ended before all files were read") from None
    head = answered.readline().split()
    if len(head) != 3:
        return "missing in the repository"
    data = answered.read(int(head[2]) + 1)
    if len(data) != int(head[2]) + 1:
        raise Unavailable("git ended before all files were read")
    return data[:-1]


def _failure(errors: bytes) -> Exception:
    """The error that git printed, without the paths in it."""
    if b"not a git repository" in errors:
        return NotFound("the directory is not a Git repository")
    if b"dubious ownership" in errors:
        return InvalidInput("git does not trust the repository, because another user owns it")
    return NotFound("the Git repository does not have this revision")
