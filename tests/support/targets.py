"""Stores under fault: each backend of retentive, and the SDK's own local tool as the control."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .oracle import Command, Outcome, Tree, Versions

if TYPE_CHECKING:
    from retentive import MemoryStore, Retentive

BACKENDS = ("sqlite", "directory")
CONTROL = "sdk"  # the SDK's own local tool, which keeps no versions and loses changes
STORES = ("default", "user-42")
MOST_OPENINGS = 30
MOUNT = "RETENTIVE_TEST_MOUNT"  # environment variable: the mount of the file system of a directory
UNKNOWN = "outcome of this command is unknown"
FULL = "Error: The memory store is full"


@dataclass(frozen=True)
class Answer:
    """The parts of a reply that the judge of a crash needs."""

    text: str
    is_error: bool

    @property
    def unknown(self) -> bool:
        return UNKNOWN in self.text


class Target(ABC):
    """An opened backend."""

    @abstractmethod
    def execute(self, store: str, command: Command) -> Answer: ...

    @abstractmethod
    def state(self, store: str) -> Outcome:
        """Return the tree of a memory store and all its versions."""

    @abstractmethod
    def close(self) -> None: ...


class RetentiveTarget(Target):
    """A backend of retentive."""

    def __init__(self, url: str) -> None:
        import retentive

        # The judge compares every byte of random texts, and some of them look like secret keys.
        is_url = url.startswith("http")
        if MOUNT in os.environ and "://" not in url:
            self.opened: Retentive = opened_on(url, os.environ[MOUNT])
        else:
            self.opened = retentive.open(url) if is_url else retentive.open(url, sensitive="off")
        self._stores: dict[str, MemoryStore] = {}

    def execute(self, store: str, command: Command) -> Answer:
        reply = self.store(store).execute(command)
        return Answer(reply.text, reply.is_error)

    def store(self, key: str) -> MemoryStore:
        """Return the memory store with this key. It is looked up once."""
        if key not in self._stores:
            self._stores[key] = self._opened(key)
        return self._stores[key]

    def _opened(self, key: str) -> MemoryStore:
        """Open a store. A server that was disturbed in each attempt of the client is asked again."""
        from retentive.errors import RetentiveError

        for _ in range(MOST_OPENINGS):
            try:
                return self.opened.store(key)
            except RetentiveError as error:
                if not error.retryable:
                    raise
        return self.opened.store(key)

    def state(self, store: str) -> Outcome:
        memories = self.store(store)
        tree = {str(memory.path): memories.read(str(memory.path)) for memory in memories.memories("/memories")}
        versions: Versions = Counter()
        found = list(memories.versions())
        after_cuts = {version.revision for version in found if str(version.actor) == "job:recovery"}
        for version in found:
            if version.revision in after_cuts and str(version.actor) in {"job:recovery", "job:external"}:
                continue
            sha = (version.sha256 or "") if version.operation != "deleted" else ""
            versions[(str(version.operation), str(version.path), sha)] += 1
        return Outcome(tree, versions)

    def close(self) -> None:
        self.opened.close()


def opened_on(directory: str, mount: str | None) -> Retentive:
    """Open a directory whose file system has this mount, whatever the kernel says."""
    from retentive.storage.files import DirectoryBackend
    from retentive.store.location import Retentive

    return Retentive(
        DirectoryBackend(directory, mount_id=lambda _: mount),
        pins={"sensitive": "off"},
    )


class SdkTarget(Target):
    """The SDK's BetaLocalFilesystemMemoryTool, with one directory for each memory store. It keeps no versions."""

    def __init__(self, url: str) -> None:
        import anthropic.tools

        self._base = Path(url.removeprefix("sdk:"))
        self._tool = anthropic.tools.BetaLocalFilesystemMemoryTool

    def execute(self, store: str, command: Command) -> Answer:
        from anthropic.lib.tools import ToolError

        try:
            return Answer(str(self._tool(str(self._base / store)).call(command)), is_error=False)
        except ToolError as error:
            return Answer(str(error), is_error=True)

    def state(self, store: str) -> Outcome:
        root = self._base / store
        return Outcome(files_of(root / "memories"))

    def close(self) -> None:
        pass


def open_target(url: str) -> Target:
    """Open the backend of a URL. `sdk:DIRECTORY` is the control."""
    return SdkTarget(url) if url.startswith("sdk:") else RetentiveTarget(url)


def url_of(backend: str, directory: Path) -> str:
    """Return the URL of a backend inside the directory of a test."""
    from .places import place_of  # programs that only open a target need no servers

    return f"sdk:{directory}/memory" if backend == CONTROL else place_of(backend, directory)


def disk_faults(backend: str, directory: Path, trees: dict[str, Tree]) -> list[str]:
    """Return the differences between the memory files on disk and these trees."""
    if backend != "directory":
        return []
    faults: list[str] = []
    for store, tree in trees.items():
        faults += _tree_faults(memory_root(directory, store), tree)
    return faults


def leftovers(directory: Path) -> list[str]:
    """Return the temporary files that still exist after the backend was closed."""
    return [f"left behind: {path.name}" for path in (directory / "memory/.retentive/tmp").glob("**/*")]


def extra_names(directory: Path) -> set[str]:
    """Return every file below a directory that is not a memory, by its relative name."""
    names = (str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())
    return {name for name in names if "memories" not in name.split("/")}


def memory_root(directory: Path, store: str) -> Path:
    """Return the folder with the files of a memory store in the directory backend."""
    base = directory / "memory"
    return base / "memories" if store == "default" else base / "stores" / store / "memories"


def compile_patterns() -> None:
    """Compile the patterns of sensitive values before a fork: otherwise each forked process does, in 0.1 s."""
    from retentive.redaction.detector import Detector

    Detector().find("a text")


def files_of(root: Path) -> Tree:
    """Return the texts of all files below a directory."""
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {f"/memories/{path.relative_to(root)}": path.read_bytes().decode() for path in files}


def _tree_faults(root: Path, tree: Tree) -> list[str]:
    found = files_of(root)
    faults = [f"on disk, but no memory: {path}" for path in found.keys() - tree.keys()]
    faults += [f"a memory, but not on disk: {path}" for path in tree.keys() - found.keys()]
    faults += [f"other text on disk: {path}" for path in found.keys() & tree.keys() if found[path] != tree[path]]
    empty = [path for path in root.rglob("*") if path.is_dir() and not any(path.iterdir())]
    return faults + [f"empty directory: {path.relative_to(root)}" for path in empty]
