"""Citations of a memory store: where its memories come from, and whether that has changed since."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Unpack
from urllib.parse import unquote

from retentive.engine import citations as cited
from retentive.engine.citations import Citation, CitedPlace, Freshness
from retentive.engine.memories import MemoryTree, WriteOptions
from retentive.engine.operation import DryRun
from retentive.errors import InvalidInput, PermissionDenied
from retentive.storage.contract import Actor
from retentive.values.paths import ROOT, is_reserved
from retentive.values.records import Written

MAX_FILE_BYTES = 8 * 1024 * 1024


class Citing(MemoryTree):
    """Methods of a memory store for the citations in its memories (docs/freshness.md)."""

    def citations(self, under: str = ROOT, *, states: Iterable[Freshness] = ()) -> list[Citation]:
        """Return the citations in the memories at or below a path that have one of the states (default: all).

        Citations of memories are compared with the present texts. For citations of files, the last `verify` counts.
        """
        return list(self._core.result_of(cited.list_citations(self._core.parsed(under), tuple(states))).items)

    def cite(
        self, path: str, place: str, *, line: int | None = None, root: str | os.PathLike[str] | None = None,
        **options: Unpack[WriteOptions],
    ) -> Written:  # fmt: skip
        """Write into a memory that a line, or without `line` all of it, comes from a source.

        `place` is a file below `root`, or a memory, such as `src/app.py#L10-L14`. The citation gets the hash of these
        lines, and the commit of `root`. It replaces one of the same file or memory in the same place. Without `root`,
        a citation of a file is unverified. Raises `NotFound`.
        """
        found = CitedPlace.parse(place)
        memory, text = self.load(path)
        if found.memory_path is not None:
            found = cited.hashed(found, cited.rows_of(self.read(found.memory_path).encode()))
        elif root is not None:
            found = WorkingCopy(root).cited(found)
        options.setdefault("if_version", memory.version_id)
        written = self.write(path, cited.with_citation(text, found, line), **options)
        if found.sha256 and not written.is_proposed:
            with suppress(PermissionDenied):  # of an actor under review, whose citation somebody else has to verify
                made = Citation(path, memory.id, 0, str(found), "fresh", found.sha256, found.commit)
                self._verified([made], dry_run=False, actor=options.get("actor"))
        return written

    def verify(
        self, root: str | os.PathLike[str] | None = None, *, under: str = ROOT, dry_run: bool = False,
        actor: Actor | str | None = None,
    ) -> list[Citation]:  # fmt: skip
        """Compare the citations in the memories at or below a path with the cited texts, and record the outcomes.

        `root` is the working copy with the cited files. Without it, only citations of memories are verified. Returns
        all citations. Adds no version.
        """
        found, now = self.citations(under), dict[tuple[str, int, str], Citation]()
        checked = [each for each in found if each.is_of_memory]
        if root is not None:
            checked += WorkingCopy(root).checked(each for each in found if not each.is_of_memory)
        for at in range(0, len(checked), cited.MAX_VERIFIED):
            done = self._verified(checked[at : at + cited.MAX_VERIFIED], dry_run=dry_run, actor=actor)
            now |= {(each.memory_id, each.line, each.source): each for each in done}
        return [now.get((each.memory_id, each.line, each.source), each) for each in found]

    def _verified(self, checked: Sequence[Citation], *, dry_run: bool, actor: Actor | str | None) -> list[Citation]:
        operation = cited.verify(checked, self._core.clock)
        return self._core.result_of(DryRun(operation) if dry_run else operation, actor)


class WorkingCopy:
    """Directory with cited files. `commit` is that of Git, or empty. Raises `InvalidInput` if there is no directory."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(os.path.realpath(root))
        if not self._root.is_dir():
            raise InvalidInput("the working copy must be a directory")
        self.commit = _head(self._root)
        self._rows = lru_cache(maxsize=1)(self._read)

    def cited(self, source: CitedPlace) -> CitedPlace:
        """Return a source with its hash and the commit. Raises `InvalidInput` and `NotFound`."""
        return replace(cited.hashed(source, self._rows(unquote(source.path))), commit=self.commit)

    def checked(self, citations: Iterable[Citation]) -> list[Citation]:
        """Return the citations of files with their states. A file that cannot be read, or is too large, is left out."""
        found = list[Citation]()
        for each in sorted(citations, key=lambda one: one.source):  # reads each file once
            source = CitedPlace.parse(each.source)
            with suppress(InvalidInput):
                state, sha256 = cited.compared(self._rows(unquote(source.path)), source, each.sha256)
                found.append(replace(each, state=state, sha256=sha256, commit=self.commit))
        return found

    def _read(self, name: str) -> Sequence[bytes] | None:
        """Return the lines of a file. None if there is no such file in the working copy. Raises `InvalidInput`."""
        parts = name.split("/")
        if "\0" in name or "\\" in name or any(each in {"", ".", ".."} or is_reserved(each) for each in parts):
            return None
        path = self._root.joinpath(*parts)
        with suppress(OSError):
            if os.path.realpath(path) != str(path) or not path.is_file():  # a link, or it leads through one
                return None
            if path.stat().st_size <= MAX_FILE_BYTES:
                return cited.rows_of(path.read_bytes())
        raise InvalidInput(f"{name} cannot be read, or is over {MAX_FILE_BYTES} bytes")


def _head(root: Path) -> str:
    command = ["git", "-C", str(root), "rev-parse", "--verify", "HEAD"]
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        return subprocess.run(  # noqa: S603 - no shell  # nosec B607
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5, check=True
        ).stdout.strip()
    return ""
