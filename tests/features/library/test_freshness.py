"""Citations: their states after any change of what is cited, and where readers see them."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retentive
from retentive import MemoryStore, Retentive, errors
from support.clock import DAY, Clock
from support.http_api import serving

NOW = Clock.now
A = "/memories/a.md"
STALE: Any = ("drifted", "orphaned")
PATHS = st.from_regex(r"[a-zé_-]{1,8}(/(\[[a-z.]{1,8}\]|[a-z.é%2-]{1,8})){1,3}", fullmatch=True)
LINES = st.tuples(st.integers(1, 9_999), st.integers(1, 50)).map(lambda at: f"#L{at[0]}-L{sum(at)}") | st.just("")
TEXTS = st.text(st.sampled_from("ab \r\n[]#L1:-@") | st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)
PARTS = [
    "[source: ",
    "a/b",
    "#L1",
    "-L2",
    " sha256:0123abcd",
    " @0123abc",
    "]",
    "\n",
    "---\n",
    "verified_at: 2026-01-0",
]


@dataclass
class Scene:
    """A store with a clock of its own, and a working copy with one file of 40 lines."""

    root: Path
    place: Retentive
    clock: Clock = field(default_factory=Clock)

    @property
    def store(self) -> MemoryStore:
        return self.place.store()

    def write(self, name: str, *lines: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))

    def states(self) -> list[str]:
        return [each.state for each in self.store.citations()]

    def notes(self, path: str = A, view_range: tuple[int, int] | None = None) -> list[str]:
        lines = self.store.view(path, view_range=view_range).split("\n")
        return [line for line in lines if line.startswith("Note:")]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    clock = Clock()
    with retentive.open("sqlite://", clock=clock, sweep=False) as place:
        made = Scene(tmp_path / "copy", place, clock)
        made.write("src/app.py", *(f"line number {number}" for number in range(1, 41)))
        yield made


class Repository:
    """A Git repository with files of different lines, which changes at random."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.root, self.rng = root, rng
        for number in range(60):
            lines = [f"{'    ' * rng.randrange(3)}value_{number}_{at} = {rng.random()}" for at in range(80)]
            self.write(f"pkg{number % 7}/file {number}.py", lines, rng.choice(["\n", "\r\n"]))
        self.git("init", "-q")
        self.commit()

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.root), "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("-c", "core.autocrlf=false", "commit", "-qm", "x")

    def names(self) -> list[str]:
        return sorted(each.relative_to(self.root).as_posix() for each in self.root.glob("pkg*/*.py"))

    def read(self, name: str) -> list[str]:
        return (self.root / name).read_bytes().decode().replace("\r\n", "\n").split("\n")[:-1]

    def write(self, name: str, lines: list[str], end: str = "\n") -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_bytes("".join(line + end for line in lines).encode())

    def change(self, name: str) -> str:
        lines, rng = self.read(name), self.rng
        at = rng.randrange(len(lines))
        kind = rng.choice(["edit", "edit", "shift", "shift", "remove", "swap", "ends", "rename", "delete", "none"])
        if kind == "edit":
            lines[at] += "  # edited"
        elif kind == "shift":
            lines[at:at] = [f"# new {rng.random()}"] * rng.randrange(1, 9)
        elif kind == "remove":
            del lines[at : at + 3]
        elif kind == "swap":
            lines = lines[at:] + lines[:at]
        if kind == "rename":
            (self.root / name).rename(self.root / f"{name}.moved")
        elif kind == "delete":
            (self.root / name).unlink()
        elif kind != "none":
            self.write(name, lines, "\r\n" if kind == "ends" else "\n")
        return kind


def test_a_thousand_citations_have_the_right_state(scene: Scene, tmp_path: Path) -> None:
    """Some have their hash in the text, some get it at their first verification. The oracle keeps the cited lines."""
    rng, store = random.Random(5), scene.store
    repository = Repository(tmp_path / "repository", rng)
    expected: dict[tuple[str, int], tuple[str, list[str]]] = {}
    for number in range(20):
        path, text = f"/memories/m{number}.md", ""
        for line in range(1, 51):
            name = rng.choice(repository.names())
            lines = repository.read(name)
            first = rng.randrange(1, 75)
            cited = lines[first - 1 : first - 1 + rng.randrange(1, 6)] if line % 10 else lines
            place = f"{name.replace(' ', '%20')}" + (f"#L{first}-L{first + len(cited) - 1}" if line % 10 else "")
            sha256 = hashlib.sha256("\n".join(cited).encode()).hexdigest()
            text += f"fact {line} [source: {place}{f' sha256:{sha256[:16]}' if line % 3 else ''}]\n"
            expected[path, line] = name, cited
        store.create(path, text)
    assert {each.state for each in store.citations()} == {"unverified"}
    assert {each.state for each in store.verify(repository.root)} == {"fresh"}
    before = store.versions()
    kinds = Counter(repository.change(name) for name in repository.names() for _ in "ab" if name in repository.names())
    repository.commit()
    found = store.verify(repository.root)
    assert (len(found), len(kinds)) == (1_000, 8)
    for each in found:
        name, cited = expected[each.path, each.line]
        whole = each.line % 10 == 0
        present = repository.read(name) if name in repository.names() else None
        if present is None:
            state = "orphaned"
        elif whole:
            state = "fresh" if present == cited else "drifted"
        else:
            state = "fresh" if "\n".join(["", *cited, ""]) in "\n".join(["", *present, ""]) else "drifted"
        assert (each.path, each.line, each.state) == (each.path, each.line, state), (name, cited)
    assert {each.commit for each in found} == {repository.git("rev-parse", "HEAD")}
    counts = Counter(each.state for each in found)
    assert min(counts[state] for state in ("fresh", "drifted", "orphaned")) > 50, counts
    assert store.citations() == found
    assert store.citations(states=STALE) == [each for each in found if each.state in STALE]
    assert store.versions() == before


def test_only_a_verification_refreshes(scene: Scene) -> None:
    store = scene.store
    store.create(A, "ten\n")
    store.cite(A, "src/app.py#L10-L12", line=1, root=scene.root)
    (cited,) = store.citations()
    assert (cited.state, cited.verified_at) == ("fresh", datetime.fromtimestamp(NOW, UTC))
    scene.clock.pass_days(1)
    scene.write("src/app.py", "all is new")
    for read in (store.view, store.search, store.recall, store.read, store.citations):
        read(A)
    assert store.verify(scene.root, dry_run=True)[0].state == "drifted"
    assert store.citations() == [cited]
    (found,) = store.verify(scene.root)
    assert (found.state, found.verified_at) == ("drifted", datetime.fromtimestamp(NOW + DAY, UTC))
    assert store.verify()[0] == found  # without the working copy, nothing is known of its files
    assert store.citations() == [found]


def test_a_view_ends_with_notes_about_what_it_shows(scene: Scene) -> None:
    store = scene.store
    store.create(A, "one\ntwo\nthree\n")
    plain = store.view(A)
    store.cite(A, "src/app.py#L10", line=1, root=scene.root)
    store.cite(A, "src/app.py#L20", line=2, root=scene.root)
    store.insert(A, 3, "[source: src/gone.py]\n[source: src/app.py#L3]")
    assert scene.notes() == [
        "Note: 2 cited source(s) were never verified.",
        "Note: 2 cited source(s) are unchanged (fresh, last verified on 2027-01-15).",
    ]
    scene.write("src/app.py", *(f"line number {number}" for number in range(15, 31)))
    store.verify(scene.root)
    drifted = (
        "Note: Line 1 cites src/app.py#L10, which has changed (drifted, found on 2027-01-15). "
        "Check it before you rely on it."
    )
    gone = "Note: This memory cites src/gone.py, which is gone (orphaned, found on 2027-01-15)."
    assert scene.notes()[:2] == [drifted, gone]
    assert scene.notes(view_range=(1, 1)) == [
        drifted,
        gone,
        "Note: 1 cited source(s) are unchanged (fresh, last verified on 2027-01-15).",
    ]
    assert drifted not in scene.notes(view_range=(2, -1))
    store.write(A, "one\ntwo\nthree\n")
    assert store.view(A) == plain
    store.write(A, "[source: src/none.py]\n" * 3 + "".join(f"[source: none/{n}.py]\n" for n in range(7)))
    store.verify(scene.root)
    assert len(scene.notes()) == 6
    assert scene.notes()[-1] == "Note: 5 more cited source(s) have changed or are gone."


def test_a_cited_memory_is_compared_at_each_read(scene: Scene) -> None:
    store, b = scene.store, "/memories/b.md"
    store.create(b, "top\nthe goal is 10\n")
    store.create(A, "x\n")
    store.cite(A, f"{b}#L2")
    assert store.read(A).startswith("x\n[source: /memories/b.md#L2 sha256:")
    store.insert(b, 0, "above")
    assert scene.states() == ["fresh"]
    store.edit(b, "10", "11")
    assert scene.notes() == [
        "Note: This memory cites /memories/b.md#L2, which has changed (drifted). Check it before you rely on it."
    ]
    store.cite(A, f"{b}#L3")
    assert (scene.states(), store.read(A).count("source")) == (["fresh"], 1)
    store.rename(b, "/memories/c d.md")
    assert scene.notes() == [
        "Note: This memory cites /memories/b.md#L3, which is gone (orphaned). It may now be /memories/c d.md."
    ]
    store.write(A, "[source: /memories/c%20d.md]\n")
    assert scene.states() == ["unverified"]
    store.verify()
    assert scene.states() == ["fresh"]
    store.append("/memories/c d.md", "more")
    assert scene.states() == ["drifted"]


def test_search_and_recall_mark_stale_memories(scene: Scene) -> None:
    store = scene.store
    store.create(A, "walrus\n")
    store.create("/memories/b.md", "walrus\n")
    store.cite(A, "src/app.py#L10", root=scene.root)
    assert {hit.path: hit.freshness for hit in store.search("walrus")} == {A: "fresh", "/memories/b.md": ""}
    scene.write("src/app.py", "other")
    store.verify(scene.root)
    assert {hit.path: hit.freshness for hit in store.search("walrus")} == {A: "drifted", "/memories/b.md": ""}
    assert f"{A} (drifted)\n" in store.recall("walrus").text
    assert "/memories/b.md\n" in store.recall("walrus").text


@pytest.mark.parametrize(
    "place",
    ["../secret.md", "/etc/passwd.d/x", "src/../../secret.md", "link.md", "linked/secret.md", "src/%00.md", "src",
     ".git/config", "src//app.py", "src\\app.py", "%2e%2e/secret.md", "."],
)  # fmt: skip
def test_nothing_outside_of_the_working_copy_is_read(scene: Scene, place: str) -> None:
    (scene.root.parent / "secret.md").write_text("secret\n")
    (scene.root / ".git").mkdir()
    (scene.root / ".git" / "config").write_text("secret\n")
    (scene.root / "link.md").symlink_to("../secret.md")
    (scene.root / "linked").symlink_to("..")
    scene.store.create(A, f"[source: {place}#L1]\n")
    (found,) = scene.store.verify(scene.root)
    assert (found.state, found.sha256) == ("orphaned", "")
    with pytest.raises(errors.NotFound):
        scene.store.cite(A, place, root=scene.root)


def test_what_cannot_be_checked_is_not_judged(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retentive.store.citing.MAX_FILE_BYTES", 1_000)
    scene.write("src/large.py", "x" * 1_001)
    scene.store.create(A, "[source: src/large.py]\n")
    assert [each.state for each in scene.store.verify(scene.root)] == ["unverified"]
    with pytest.raises(errors.InvalidInput, match="over 1000 bytes") as raised:
        scene.store.cite(A, "src/large.py", root=scene.root)
    assert str(scene.root) not in str(raised.value)
    for wrong in (scene.root / "none", scene.root / "src" / "app.py"):
        with pytest.raises(errors.InvalidInput):
            scene.store.verify(wrong)


def test_bytes_of_any_encoding_can_be_cited(scene: Scene) -> None:
    (scene.root / "latin.txt").write_bytes(b"caf\xe9 au lait\r\nother\r\n")
    (scene.root / "data.bin").write_bytes(os.urandom(64))
    scene.store.create(A, "")
    scene.store.cite(A, "latin.txt#L1", root=scene.root)
    scene.store.cite(A, "data.bin", root=scene.root)
    (scene.root / "latin.txt").write_bytes(b"new\ncaf\xe9 au lait\n")
    assert [each.state for each in scene.store.verify(scene.root)] == ["fresh", "fresh"]


def test_an_actor_under_review_cannot_verify(scene: Scene) -> None:
    store = scene.store
    store.change_settings({"review": ["session:*"]})
    store.create(A, "[source: src/app.py]\n")
    assert store.cite(A, "src/app.py#L1", root=scene.root, actor="session:s").is_proposed
    with pytest.raises(errors.PermissionDenied):
        store.verify(scene.root, actor="session:s")
    assert scene.states() == ["unverified"]


def test_who_may_not_change_a_memory_cannot_verify_it(scene: Scene) -> None:
    """Nor say that what it cites is fresh. A memory that is read-only for everybody can be verified."""
    store = scene.store
    store.create(A, "[source: src/app.py]\n")
    store.change_settings({"allow_write": {"session:*": ["/memories/own/**"]}})
    with pytest.raises(errors.PermissionDenied, match=f"may not change {A}"):
        store.verify(scene.root, actor="session:s")
    assert store.verify(scene.root, dry_run=True, actor="session:s")[0].state == "fresh"
    assert scene.states() == ["unverified"]
    store.change_settings({"read_only": True})
    assert [each.state for each in store.verify(scene.root)] == ["fresh"]


def test_a_cited_memory_in_quarantine_is_as_one_that_is_gone(scene: Scene) -> None:
    store = scene.store
    for name in "bc":
        store.create(f"/memories/{name}.md", "the number is 4711\n", actor="session:evil")
        store.create(f"/memories/of_{name}.md", f"[source: /memories/{name}.md]\n")
    store.verify()
    store.delete("/memories/c.md")
    store.change_settings({"quarantine": ["session:evil"]})
    for found in (store.citations(), store.verify(), store.citations()):
        assert [(each.state, each.sha256, each.moved_to) for each in found] == [("orphaned", "", "")] * 2
    store.change_settings({"quarantine": []})
    assert scene.states() == ["fresh", "orphaned"]


@pytest.mark.parametrize("how", ["redact", "erase", "erase the citing one", "redact the citing one"])
def test_what_is_removed_leaves_no_hash_and_no_source_in_a_record(scene: Scene, how: str) -> None:
    store, secret = scene.store, "/memories/secret%20place.md"
    store.create("/memories/secret place.md", "the number is 4711\n")
    store.create(A, f"[source: {secret}#L1]\n[source: src/app.py]\n[source: /memories/..]\n")
    store.create("/memories/b.md", "[source: src/app.py]\n")
    store.verify(scene.root)
    if "citing" in how:
        store.write(A, "[source: src/app.py]\n")
    if "redact" in how:
        store.write("/memories/secret place.md", "none\n")
        path = A if "citing" in how else "/memories/secret place.md"
        store.history.redact([each.id for each in store.versions(path)][1:])
    else:
        store.history.erase(A if "citing" in how else "/memories/secret place.md")
    records = store._core.read(lambda view: dict(view.records("freshness")))
    assert "secret" not in "".join(records.values())
    assert [text.count("src/app.py") for text in records.values()] == [1] * (1 if how == "erase the citing one" else 2)


def test_the_hash_of_the_first_verification_stays(scene: Scene) -> None:
    scene.store.create(A, "[source: src/app.py]\n")
    (first,) = scene.store.verify(scene.root)
    scene.store._verified([replace(first, sha256="0" * 64)], None)
    assert scene.store.citations()[0].sha256 == first.sha256


def test_a_memory_without_citations_keeps_no_record(scene: Scene) -> None:
    scene.store.create(A, "[source: src/app.py]\n")
    scene.store.verify(scene.root)
    scene.store.write(A, "[source: src/app.py#L1]\n")
    scene.store.verify(scene.root)
    ((_, record),) = scene.store._core.read(lambda view: list(view.records("freshness")))
    assert "src/app.py#L1" in record
    assert 'src/app.py"' not in record


def test_a_view_looks_for_moved_lines_within_a_bound(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []

    def hash_of(rows: list[bytes]) -> str:
        hashed.append(b"\n".join(rows))
        return hashlib.sha256(hashed[-1]).hexdigest()

    monkeypatch.setattr("retentive.engine.citations.hash_of", hash_of)
    scene.store.create("/memories/b.md", "\n" * 90_000)
    for count in (1, 100):
        scene.store.write(A, "".join(f"[source: /memories/b.md#L{n + 9} sha256:01234567]\n" for n in range(count)))
        hashed.clear()
        assert scene.states() == ["drifted"] * count
        assert 1_000 < len(hashed) < 9_000


def test_a_damaged_memory_does_not_hide_the_citations_of_others(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as place:
        for name in "abc":
            place.store().create(f"/memories/{name}.md", "[source: src/app.py] [source: /memories/b.md]\n")
    with sqlite3.connect(tmp_path / "memory.db") as database:
        database.execute("UPDATE versions SET text = x'00' WHERE path = '/memories/b.md'")
    database.close()
    with retentive.open(at) as place:
        for found in (place.store().citations(), place.store().verify(tmp_path)):
            assert [(each.path[-4:], each.state) for each in found if each.is_of_memory] == [
                ("a.md", "unverified"), ("c.md", "unverified"),
            ]  # fmt: skip


def test_pages_of_citations_are_complete(scene: Scene) -> None:
    """A page may end within a memory."""
    for number in range(4):
        scene.store.create(f"/memories/m{number}.md", "[source: a/b]\n" * number * 3)
    with serving(scene.place) as api:
        for limit in (1, 2, 5, 100):
            found: list[str] = []
            page: str | None = ""
            while page is not None:
                cursor = f"&page={page}" if page else ""
                answer = api.get(f"/v1/memory_stores/{scene.store.id}/citations?limit={limit}{cursor}").body
                assert len(answer["data"]) <= limit
                found += [each["path"] for each in answer["data"]]
                page = answer["next_page"]
            assert found == [each.path.removeprefix("/memories") for each in scene.store.citations()]


@given(PATHS, LINES, TEXTS, st.integers(0, 8))
def test_what_is_cited_is_found_and_nothing_else_changes(place: str, lines: str, text: str, number: int) -> None:
    with retentive.open("sqlite://", sensitive="off") as opened:
        store = opened.store()
        store.create(A, text)
        count = text.count("\n") + (text != "" and not text.endswith("\n"))
        line = number if 0 < number <= count else None
        store.cite(A, place + lines, line=line)
        cited = store.read(A)
        assert (line or 0, place + lines) in [(each.line, each.source) for each in store.citations()]
        assert store.cite(A, place + lines, line=line).version_id == store.versions(A)[0].id
        assert store.read(A) == cited
        before, after = text.split("\n"), cited.split("\n")
        assert (
            (before[: line - 1] + before[line:] == after[: line - 1] + after[line:])
            if line
            else (after[:count] == before[:count])
        )


@given(st.lists(st.sampled_from(PARTS)))
def test_no_text_breaks_the_parser(parts: list[str]) -> None:
    with retentive.open("sqlite://") as opened:
        opened.store().create(A, "".join(parts))
        for each in opened.store().verify():
            assert (each.state, each.line <= "".join(parts).count("\n") + 1) == ("unverified", True)
        assert "\nNote: " in opened.store().view(A) or not opened.store().citations()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x [source: src/a.py#L3-9].", ["1 src/a.py#L3-L9"]),
        ("[source: app/[id]/page.tsx#L3]", ["0 app/[id]/page.tsx#L3"]),
        ("a [source: a.md] [source: /memories/b#L2 @0123456]", ["1 a.md", "1 /memories/b#L2 @0123456"]),
        ("source: '[source: docs/a%20b.md]'\n", ["1 docs/a%20b.md"]),
        ("---\nsources:\n- '[source: a.md]'\n---\nx [source: b.md]\n---\n", ["0 a.md", "5 b.md"]),
        ("[source: the manual] [source: handbook] [source: https://x.example/a] [source: a.md](x)", []),
        ("[source: a.md#L0] [source: a.md#L9-L3] [source: a.md sha256:xyz]", []),
        ("[source: Makefile#L3 sha256:0123456789abcdef]", ["0 Makefile#L3 sha256:0123456789abcdef"]),
        ("[source: a.md]" * 2 + "\n[source: a.md] \r\n", ["1 a.md", "1 a.md", "0 a.md"]),
        ("[source: a.md]\n" * 150, ["0 a.md"] * 100),
        (f"[source: {'a/' * 500}] [source: {'b/' * 501}]", [f"1 {'a/' * 500}"]),
    ],
    ids=range(11),
)
def test_citations_in_a_text(scene: Scene, text: str, found: list[str]) -> None:
    scene.store.create(A, text)
    assert [f"{each.line} {each.source}" for each in scene.store.citations()] == found


@pytest.mark.parametrize("place", ["", "https://x.example/a", "a.md#L9-L3", "/memories/..", 3])
def test_other_texts_are_no_source(scene: Scene, place: str) -> None:
    scene.store.create(A, "")
    with pytest.raises(errors.InvalidInput):
        scene.store.cite(A, place)


def test_the_date_of_front_matter_counts_only_there(scene: Scene) -> None:
    for matter, date in {
        "---\ntags: [a]\nverified_at: 2026-10-02\n---\n": "2026-10-02",
        "verified_at: 2026-10-02\n": "None",
        "---\nverified_at: 2026-99-02\n---\n": "None",
        "---\n---\nverified_at: 2026-10-02\n": "None",
        "---\n\n---\nverified_at: 2026-10-02\n": "None",
        "---\n\nverified_at: '2026-10-02'\nsource: '[source: a/b]'\n---\n": "2026-10-02",
    }.items():
        scene.store.write(A, f"{matter}[source: a/b]\n")
        assert str(scene.store.citations()[0].verified_at)[:10] == date
