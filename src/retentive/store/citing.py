"""Citations of a memory store: where its memories come from, and whether that has changed since."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Unpack
from urllib.parse import unquote

from retentive.engine import citations as cited
from retentive.engine.citations import Citation, CitedPlace, Freshness
from retentive.engine.memories import MemoryTree, WriteOptions
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
            top, commit = _working_copy(root)
            found = replace(cited.hashed(found, _rows(top, found.path)), commit=commit)
        options.setdefault("if_version", memory.version_id)
        written = self.write(path, cited.with_citation(text, found, line), **options)
        if found.sha256 and not written.is_proposed:
            with suppress(PermissionDenied):  # of an actor under review, whose citation somebody else has to verify
                made = Citation(path, memory.id, 0, str(found), "fresh", found.sha256, found.commit)
                self._verified([made], options.get("actor"))
        return written

    def verify(
        self, root: str | os.PathLike[str] | None = None, *, under: str = ROOT, dry_run: bool = False,
        actor: Actor | str | None = None,
    ) -> list[Citation]:  # fmt: skip
        """Compare the citations in the memories at or below a path with the cited texts, and record the outcomes.

        `root` is the working copy with the cited files. Without it, only citations of memories are verified. Returns
        all citations. Adds no version.
        """
        found = self.citations(under)
        checked = [each for each in found if each.is_of_memory]
        if root is not None:
            top, commit = _working_copy(root)
            rows_of = lru_cache(maxsize=1)(partial(_rows, top))
            for at, each in sorted(enumerate(found), key=lambda one: one[1].source.split("#")):  # reads each file once
                if each.is_of_memory:
                    continue
                source = CitedPlace.parse(each.source)
                with suppress(InvalidInput):  # of a file that cannot be read, or is too large
                    state, sha256 = cited.compared(rows_of(source.path), source, each.sha256)
                    found[at] = replace(each, state=state, sha256=sha256, commit=commit)
                    checked.append(found[at])
        if dry_run:
            return found
        for at in range(0, len(checked), cited.MAX_VERIFIED):
            self._verified(checked[at : at + cited.MAX_VERIFIED], actor)
        return self.citations(under)

    def _verified(self, checked: Sequence[Citation], actor: Actor | str | None) -> None:
        self._core.result_of(cited.verify(checked, self._core.clock), actor)


def _working_copy(root: str | os.PathLike[str]) -> tuple[Path, str]:
    """Return the directory with cited files, and its Git commit, or "". Raises `InvalidInput` if there is none."""
    top = Path(os.path.realpath(root))
    if not top.is_dir():
        raise InvalidInput("the working copy must be a directory")
    command = ["git", "-C", str(top), "rev-parse", "--verify", "HEAD"]
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run(  # noqa: S603 - no shell  # nosec B607
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5, check=True
        )
        return top, done.stdout.strip()
    return top, ""


def _rows(top: Path, place: str) -> Sequence[bytes] | None:
    """Return the lines of a file. None if there is no such file in the working copy. Raises `InvalidInput`."""
    name = unquote(place)
    parts = name.split("/")
    if "\0" in name or "\\" in name or any(each in {"", ".", ".."} or is_reserved(each) for each in parts):
        return None
    path = top.joinpath(*parts)
    with suppress(OSError):
        if os.path.realpath(path) != str(path) or not path.is_file():  # a link, or it leads through one
            return None
        if path.stat().st_size <= MAX_FILE_BYTES:
            return cited.rows_of(path.read_bytes())
    raise InvalidInput(f"{name} cannot be read, or is over {MAX_FILE_BYTES} bytes")
