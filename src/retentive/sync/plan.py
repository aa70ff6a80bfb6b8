"""Plans the steps that make a directory and a memory store the same. Compares them with their last common state.

The memories may be a tree of several stores, some of which are read-only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from retentive.storage.contract import Memory
from retentive.sync.folder import LocalFile, Stamp, name_of
from retentive.values.paths import ROOT

Act: TypeAlias = Literal[
    "adopt",  # both sides have the same text
    "forget",  # the path no longer exists on either side
    "push",  # write the text of the file to the store
    "pull",  # write the text of the memory to the directory
    "merge",  # both changed
    "delete_memory",
    "delete_file",
    "rename_memory",
    "rename_file",
    "hold_memory",  # a deletion of a memory that must be confirmed
    "hold_file",  # a deletion of a file that must be confirmed
    "hold_new",  # a new file in a read-only part of the tree
]
Side: TypeAlias = Literal["store", "directory"]
Files: TypeAlias = Mapping[str, LocalFile]
Memories: TypeAlias = Mapping[str, Memory]
MOST_UNCONFIRMED = 2
"""Up to this number of deletions within a day needs no confirmation, even if it is more than half of the files."""
_HELD: tuple[tuple[Act, Act, Act, Side], ...] = (
    ("delete_memory", "hold_memory", "pull", "store"),
    ("delete_file", "hold_file", "push", "directory"),
)


@dataclass(frozen=True, slots=True)
class Base:
    """State of the memory and the file at one path after their last synchronisation.

    `sha256` is the hash of the memory, and `local_sha256` is the hash of the file. The hashes differ if a guard changed
    the text when it was written to the store. `stamp` is None if the file must be read again.
    """

    version_id: str
    memory_id: str
    sha256: str
    local_sha256: str
    stamp: Stamp | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """Mount points of the memory stores of a tree, and those of them whose stores cannot be written."""

    points: tuple[str, ...] = (ROOT,)
    read_only: frozenset[str] = frozenset()

    def of(self, path: str) -> str:
        """Return the mount point that a path belongs to: the longest one at or above it."""
        return max((point for point in self.points if f"{path}/".startswith(f"{point}/")), key=len)

    def is_read_only(self, path: str) -> bool:
        """Return whether a path belongs to a store that cannot be written."""
        return self.of(path) in self.read_only

    def may_rename(self, path: str, to: str) -> bool:
        """Return whether the memory at `path` can be renamed to `to`."""
        return self.of(path) == self.of(to) not in self.read_only


ONE_STORE = Places()


@dataclass(frozen=True, slots=True)
class SyncStep:
    """One step of a plan, for one path. `to` is the new path if the step is a rename."""

    act: Act
    path: str
    to: str = ""


def plan(
    bases: Mapping[str, Base],
    files: Files,
    memories: Memories,
    deleted: Iterable[str],
    *,
    removed: Mapping[Side, int] | None = None,
    confirmed: bool = False,
    restoring: bool = False,
    places: Places = ONE_STORE,
) -> list[SyncStep]:
    """Plan the steps that make the files and the memories the same.

    `bases` maps each path to its last common state. `deleted` yields the ids of memories that, according to the
    history, were deleted. If a text was edited on one side and deleted on the other side, the edit wins.

    Deletions of more than half of the files or memories within a day are held until a person confirms them. `removed`
    has the number of deletions that were carried out within the last day. If `confirmed` is True, the deletions are
    carried out. If `restoring` is True, they are undone.

    Below a read-only mount of `places`, no step changes a memory: a deleted file comes back, and a changed one gets the
    text of the memory, after its own text was copied.
    """
    gone = frozenset(deleted)
    steps = _renames(bases, files, memories, places)
    steps += _renamed_files(bases, files, memories, _paths_of(steps), places)
    busy = _paths_of(steps)
    for path in sorted({*bases, *files, *memories} - busy):
        act = _act(bases.get(path), files.get(path), memories.get(path), gone)
        if act == "delete_memory" and places.is_read_only(path):
            act = "pull"
        if act is not None:
            steps.append(SyncStep(act, path))
    if not confirmed:
        steps = _held(steps, len(bases), removed or {}, restoring=restoring)
    kept: dict[bool, Act] = {True: "merge", False: "hold_new"}
    return [
        replace(step, act=kept[step.path in memories])
        if step.act == "push" and places.is_read_only(step.path)
        else step
        for step in steps
    ]


def _held(steps: list[SyncStep], paths: int, removed: Mapping[Side, int], *, restoring: bool) -> list[SyncStep]:
    """Return the steps with deletions of more than half of the `paths` held, or undone if `restoring` is True."""
    other: dict[Act, Act] = {}
    acts = Counter(step.act for step in steps)
    for act, hold, undo, side in _HELD:
        before = removed.get(side, 0)
        if acts[act] and acts[act] + before > max(MOST_UNCONFIRMED, (paths + before) // 2):
            other[act] = undo if restoring else hold
    return [replace(step, act=other.get(step.act, step.act)) for step in steps]


def _act(base: Base | None, file: LocalFile | None, memory: Memory | None, deleted: frozenset[str]) -> Act | None:
    is_edited = base is None or file is None or base.local_sha256 != file.sha256
    is_new_version = base is None or memory is None or base.version_id != memory.version_id
    if file is None and memory is None:
        return "forget" if base is not None else None
    if memory is None:
        return "delete_file" if base is not None and not is_edited and base.memory_id in deleted else "push"
    if file is None:
        return "pull" if is_new_version else "delete_memory"
    if file.sha256 == memory.sha256:
        return "adopt" if is_new_version or is_edited or (base is not None and base.stamp != file.stamp) else None
    if not is_new_version:
        return "push" if is_edited else None
    return "pull" if base is not None and not is_edited and base.sha256 == base.local_sha256 else "merge"


def _paths_of(steps: Iterable[SyncStep]) -> set[str]:
    return {path for step in steps for path in (step.path, step.to)}


def _renames(bases: Mapping[str, Base], files: Files, memories: Memories, places: Places) -> list[SyncStep]:
    """Plan to rename each file whose memory was renamed, and each memory whose file differs only in letter case.

    Edits of the file are kept.
    """
    now = {memory.id: path for path, memory in memories.items()}
    found: dict[str, SyncStep] = {}
    for path, base in bases.items():
        to = now.get(base.memory_id, path)
        if to != path and path in files and path not in memories and to not in files and to not in bases:
            found.setdefault(to, SyncStep("rename_file", path, to))
    steps = list(found.values())
    return steps + _renamed_files(bases, files, memories, _paths_of(steps), places, in_case=True)


def _renamed_files(
    bases: Mapping[str, Base],
    files: Files,
    memories: Memories,
    busy: set[str],
    places: Places,
    *,
    in_case: bool = False,
) -> list[SyncStep]:
    """Plan to rename each memory whose file was renamed.

    A file counts as renamed if its text is missing at one path and new at another, and its memory has not changed. With
    `in_case`, the name may differ in letter case only, and the text may differ too.
    """
    gone, new = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for path, base in bases.items():
        memory = memories.get(path)
        if path not in files and path not in busy and memory and (in_case or memory.version_id == base.version_id):
            gone[path.casefold() if in_case else base.local_sha256].append(path)
    for path, file in files.items():
        if path not in bases and path not in memories and path not in busy:
            new[path.casefold() if in_case else file.sha256].append(path)
    return [
        SyncStep("rename_memory", gone[key][0], paths[0])
        for key, paths in new.items()
        if len(paths) == len(gone.get(key, ())) == 1 and places.may_rename(gone[key][0], paths[0])
    ]


def alike(bases: Mapping[str, Base], files: Files, memories: Memories, places: Places = ONE_STORE) -> set[str]:
    """Return the paths that differ only in letter case from another path, or from a directory above another path.

    Some file systems can store only one of two such paths. Paths that were synchronised before are not returned, and
    neither are the two names of a rename in letter case.
    """
    steps = _renames(bases, files, memories, places)
    renamed = {step.path for step in steps if step.path.casefold() == step.to.casefold()}
    listed = {*files, *memories} - renamed
    spellings: defaultdict[str, set[str]] = defaultdict(set)
    for path in listed:
        for prefix in _prefixes(path):
            spellings[prefix.casefold()].add(prefix)
    clashes = (path for path in listed if any(len(spellings[each.casefold()]) > 1 for each in _prefixes(path)))
    return {path for path in clashes if path not in bases}


def _prefixes(path: str) -> list[str]:
    parts = name_of(path).split("/")
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]
