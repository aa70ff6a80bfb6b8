"""Backend suite: the versions that are recorded for changes, including renames."""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from retentive.storage.contract import ACTOR_KINDS, Actor, Change, Entry, Transaction, Usage, sortable_id
from retentive.testing.backend_suite.opening import A, B, C, Opened, SuiteOpening
from retentive.values.paths import ROOT

# Texts that must be stored byte for byte, without translated line ends, Unicode normalization or trimmed spaces.
TEXTS = (
    b"",
    b"\n",
    b"a\r\nb\r\n",
    b"a\rb",
    b" a \t \n\n\n",
    "a\u2028b\u2029c\u0085d\x0ce\x0bf".encode(),
    "\ufeffa".encode(),
    "e\u0301 \u00e9".encode(),
    "\u0001\u0007\u001b[31m\u007f".encode(),
    "😀\U0010ffff\ufffd\ufffe".encode(),
    b"%s %d {} \\n ' \" ; --",
)
ODD_PATHS = (
    "/memories/it's; DROP TABLE memories",
    '/memories/"quoted" <a> | b * c ?',
    "/memories/100% _ off",
    "/memories/ ",
    "/memories/-rf",
    "/memories/~",
    "/memories/...",
    "/memories/.retentive/x",
    "/memories/memories/memories",
    "/memories/\u3000wide",
    "/memories/😀👍🏽/報告．md",
    "/memories/می\u200cخ",
    "/memories/میخ",
    "/memories/👩\u200d💻/a\u200db",
    "/memories/CON",
    "/memories/a:b",
    "/memories/" + "x" * 255,
    "/memories/" + "é" * 127,
    "/memories/deep" + "/x" * 19,
    "/memories/" + "/".join(["y" * 204] * 5),
)
WHO = Actor("user", "ann")


class VersionsSuite(SuiteOpening):
    """Tests of versions. Each change adds one version with the operation, time, actor and new text of the change."""

    def test_one_version_records_a_new_path_with_a_new_text(self, store: Opened) -> None:
        """One change can rename a memory and replace its text. It adds one version, and the memory keeps its id.

        Another memory can take the old path in the same write.
        """
        store.create({A: b"one", B: b"two"})
        a, b = store.memory(A), store.memory(B)
        store.write(lambda tx: tx.record([Change(a, C, b"three"), Change(b, A, b"four")], None))
        assert store.tree() == {A: b"four", C: b"three"}
        assert (store.memory(C).id, store.memory(A).id) == (a.id, b.id)
        assert [(one.operation, one.path) for one in store.versions(memory_id=a.id)] == [
            ("modified", C),
            ("created", A),
        ]
        assert store.usage() == Usage(2, 9)
        assert store.found(a.id) == store.memory(C)
        assert store.get(B) == Entry()
        store.move(C, B)
        assert [store.version_text(one.id) for one in store.versions(memory_id=a.id)] == [b"three", b"three", b"one"]

    def test_a_creation_is_recorded(self, store: Opened) -> None:
        """A new memory and its first version have the same path, size, hash, ids and time."""
        before = datetime.now(UTC)
        store.create({A: "é\n".encode()}, WHO)
        memory, (version,) = store.memory(A), store.versions()
        sha256 = hashlib.sha256("é\n".encode()).hexdigest()
        assert memory.id.startswith("mem_")
        assert version.id.startswith("memver_")
        assert (memory.path, memory.size_bytes, memory.sha256, memory.version_id) == (A, 3, sha256, version.id)
        assert (version.memory_id, version.operation, version.path) == (memory.id, "created", A)
        assert (version.size_bytes, version.sha256, version.actor, version.revision) == (3, sha256, WHO, 1)
        assert memory.created_at == memory.updated_at == version.created_at
        assert before - timedelta(seconds=1) <= memory.created_at <= datetime.now(UTC) + timedelta(seconds=1)

    @pytest.mark.parametrize(("path", "data"), [(A, b"other"), (C, None), (C, b"other")], ids=["text", "path", "both"])
    def test_a_modification_is_recorded(self, store: Opened, path: str, data: bytes | None) -> None:
        """The change adds one version with the new path and text.

        The id and creation time of the memory do not change.
        """
        store.create({A: b"one"})
        before = store.memory(A)
        store.move(A, path, WHO, data=data)
        memory, (version, first) = store.memory(path), store.versions()
        text = data or b"one"
        sha256 = hashlib.sha256(text).hexdigest()
        assert (memory.id, memory.created_at, memory.path) == (before.id, before.created_at, path)
        assert memory.updated_at == version.created_at > before.updated_at
        assert (memory.size_bytes, memory.sha256, memory.version_id) == (len(text), sha256, version.id)
        assert (version.operation, version.path, version.memory_id) == ("modified", path, before.id)
        assert (version.size_bytes, version.sha256, version.actor, version.revision) == (len(text), sha256, WHO, 2)
        assert (first.id, store.version_text(first.id)) == (before.version_id, b"one")
        assert (store.tree(), store.usage()) == ({path: text}, Usage(1, len(text)))
        assert store.found(before.id) == memory
        assert store.versions(path=A) == [each for each in (version, first) if each.path == A]

    def test_a_deletion_is_recorded(self, store: Opened) -> None:
        """The version of a deletion has no size and no hash. Earlier versions are kept."""
        store.create({A: b"one"})
        before = store.memory(A)
        store.delete(A, actor=WHO)
        version = store.versions()[0]
        assert (version.operation, version.path, version.memory_id) == ("deleted", A, before.id)
        assert (version.size_bytes, version.sha256, version.actor) == (None, None, WHO)
        assert (store.tree(), store.usage()) == ({}, Usage(0, 0))
        assert store.version_text(before.version_id) == b"one"

    def test_a_reused_path_is_a_new_memory(self, store: Opened) -> None:
        """A new memory at the path of a deleted memory has another id, even within one write."""
        store.create({A: b"one"})
        first = store.memory(A)

        def replace(tx: Transaction) -> None:
            tx.record([Change(tx.get(A).memory, None)], None)
            tx.record([Change(None, A, b"two")], None)

        store.write(replace)
        assert store.memory(A).id != first.id
        assert store.tree() == {A: b"two"}
        assert [version.operation for version in store.versions()] == ["created", "deleted", "created"]
        assert [version.revision for version in store.versions()] == [2, 2, 1]

    def test_many_changes_in_one_write_are_one_revision(self, store: Opened) -> None:
        """Each creation, edit, rename or deletion adds one version. The times of the versions increase."""
        count = 300
        files = {f"/memories/d{number % 7}/{number:03d}": str(number).encode() for number in range(count)}
        store.create(files)
        assert (store.tree(), store.revision(), len(store.versions())) == (files, 1, count)
        moved = {path.replace("/memories/", "/memories/moved/"): data for path, data in files.items()}
        store.write(
            lambda tx: tx.record([Change(one, f"/memories/moved{one.path[9:]}") for one in tx.memories(ROOT)], None)
        )
        assert (store.tree(), store.revision(), len(store.versions())) == (moved, 2, 2 * count)
        store.write(lambda tx: tx.record([Change(one, one.path, b"!" * 9) for one in tx.memories(ROOT)], None))
        assert (set(store.tree().values()), store.usage()) == ({b"!" * 9}, Usage(count, 9 * count))
        store.write(lambda tx: tx.record([Change(one, None) for one in tx.memories("/memories/moved/d3")], None))
        assert set(store.tree()) == {path for path in moved if not path.startswith("/memories/moved/d3/")}
        self._check_order(store)

    def test_mixed_changes_in_one_record(self, store: Opened) -> None:
        """One call of `record` can create, edit, rename and delete memories. Each change adds one version."""
        store.create({A: b"a", B: b"b", C: b"c"})

        def mixed(tx: Transaction) -> None:
            a, b, c = (tx.get(path).memory for path in (A, B, C))
            tx.record(
                [Change(a, None), Change(b, B, b"bb"), Change(c, "/memories/e"), Change(None, "/memories/n", b"")], WHO
            )

        store.write(mixed)
        assert store.tree() == {B: b"bb", "/memories/e": b"c", "/memories/n": b""}
        assert store.usage() == Usage(3, 3)
        assert sorted((one.operation, one.path) for one in store.versions()[:4]) == [
            ("created", "/memories/n"),
            ("deleted", A),
            ("modified", B),
            ("modified", "/memories/e"),
        ]

    def test_bytes_are_stored_exactly(self, store: Opened) -> None:
        """Line ends, spaces, byte order marks and Unicode forms are stored exactly, also in the history."""
        store.create({f"/memories/{number}": data for number, data in enumerate(TEXTS)})
        assert list(store.tree().values()) == [TEXTS[int(path.rsplit("/", 1)[1])] for path in store.tree()]
        for data in TEXTS:
            store.put("/memories/0", data)
            assert store.get("/memories/0").data == data
            assert store.memory("/memories/0").sha256 == hashlib.sha256(data).hexdigest()
            assert store.version_text(store.memory("/memories/0").version_id) == data

    def test_large_texts_are_stored(self, store: Opened) -> None:
        """A text of two megabytes can be stored and edited."""
        large = ("é" * 1_023 + "\n").encode() * 1_024
        store.create({A: large})
        store.put(A, large + b"!")
        assert store.get(A).data == large + b"!"
        assert store.usage() == Usage(1, len(large) + 1)
        assert store.version_text(store.versions()[1].id) == large

    def test_unusual_and_longest_paths_are_stored(self, store: Opened) -> None:
        """A path can contain every allowed character. A path of the maximum length can be stored."""
        store.create({path: path.encode() for path in ODD_PATHS})
        assert store.tree() == {path: path.encode() for path in ODD_PATHS}
        for path in ODD_PATHS:
            store.put(path, b"changed")
            store.move(path, "/memories/elsewhere")
            assert store.tree()["/memories/elsewhere"] == b"changed"
            store.move("/memories/elsewhere", path)
            assert [one.path for one in store.versions(path=path)] == [path] * 3
        store.delete(*ODD_PATHS)
        assert store.tree() == {}

    def test_actors_are_stored(self, store: Opened) -> None:
        """Actors of every kind are stored with any name. A change without an actor has the actor None."""
        actors = [None, *(Actor(kind, "x") for kind in ACTOR_KINDS), Actor("user", "a:b é😀'"), Actor("job", "x" * 255)]
        for number, actor in enumerate(actors):
            store.create({f"/memories/{number}": b""}, actor)
        assert [version.actor for version in reversed(store.versions())] == actors

    def test_times_come_from_the_clock(self, tmp_path: Path) -> None:
        """Times of versions have microseconds and the time zone UTC."""
        store = Opened(self.opened(tmp_path, clock=lambda: 1_800_000_000.25))
        store.create({A: b""})
        assert store.memory(A).created_at == datetime.fromtimestamp(1_800_000_000.25, UTC)

    def test_times_and_ids_increase_with_any_clock(self, tmp_path: Path) -> None:
        """Times and ids of versions increase even if the clock stops or goes back by an hour."""
        now = [0.0]
        store = Opened(self.opened(tmp_path, clock=lambda: now[0]))
        for step, seconds in enumerate((1_800_000_000.0, 1_799_996_400.0, time.time())):
            now[0] = seconds
            store.create({f"/memories/{step}/{number}": b"" for number in range(20)})
            store.put(f"/memories/{step}/0", b"changed")
        self._check_order(store)

    def test_ids_come_from_new_id(self, tmp_path: Path) -> None:
        """`new_id` is called with a prefix and an increasing time."""
        told: list[tuple[str, int]] = []

        def new_id(prefix: str, time_us: int) -> str:
            told.append((prefix, time_us))
            return sortable_id(prefix, time_us)

        store = Opened(self.opened(tmp_path, new_id=new_id))
        store.create({A: b""})
        store.put(A, b"x")
        prefixes = [prefix for prefix, _ in told]
        assert prefixes[0] == "memstore_"
        assert sorted(prefixes[1:]) == ["mem_", "memver_", "memver_"]
        times = [time_us for _, time_us in told]
        assert times == sorted(times)

    def test_a_memory_that_was_moved_and_edited_can_be_changed_further(self, store: Opened) -> None:
        """One change renames and edits a memory. After that, the memory can be edited, moved back and deleted.

        Another memory can be created at its old path.
        """
        store.create({A: b"one", B: b"two"})
        store.move(A, C, WHO, data=b"other")
        store.create({A: b"new"})
        store.put(C, b"edited")
        assert store.tree() == {A: b"new", B: b"two", C: b"edited"}
        store.delete(A)
        store.move(C, A, WHO, data=b"back")
        assert store.tree() == {A: b"back", B: b"two"}
        store.delete(A, B)
        assert (store.tree(), store.usage()) == ({}, Usage(0, 0))

    def test_changes_of_one_record_apply_in_order(self, store: Opened) -> None:
        """If a change frees a path, the next change of the same `record` call can use it."""
        store.create({A: b"one", B: b"two"})
        ids = store.memory(A).id, store.memory(B).id

        def work(tx: Transaction) -> None:
            one, two = tx.get(A).memory, tx.get(B).memory
            tx.record([Change(one, C, b"one, moved"), Change(two, A), Change(None, B, b"new")], WHO)
            assert (tx.get(C).data, tx.get(A).data, tx.get(B).data) == (b"one, moved", b"two", b"new")

        store.write(work)
        assert store.tree() == {A: b"two", B: b"new", C: b"one, moved"}
        assert (store.memory(C).id, store.memory(A).id) == ids
        assert store.usage() == Usage(3, 16)
        assert [version.path for version in store.versions()[:3]] == [B, A, C]

    def test_a_rename_frees_its_path_for_a_later_change(self, store: Opened) -> None:
        """A rename is applied before later changes of the same `record` call."""
        store.create({A: b"one", B: b"two"})

        def work(tx: Transaction) -> None:
            one, two = tx.get(A).memory, tx.get(B).memory
            tx.record([Change(one, C), Change(two, A, b"two, edited")], WHO)

        store.write(work)
        assert store.tree() == {A: b"two, edited", C: b"one"}
        assert len(store.versions()) == 4

    def _check_order(self, store: Opened) -> None:
        versions = store.versions()
        times, ids = [one.created_at for one in versions], [one.id for one in versions]
        assert times == sorted(times, reverse=True)
        assert len(set(times)) == len(times)
        assert ids == sorted(ids, reverse=True)
        assert len(set(ids)) == len(ids)
        revisions = [one.revision for one in versions]
        assert revisions == sorted(revisions, reverse=True)
