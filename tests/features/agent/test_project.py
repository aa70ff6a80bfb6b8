"""Projects over many sessions: each session continues from the last one, even with concurrent writers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive import InvalidInput, MemoryStore, Mounts, NotFound
from retentive.agent import Feature, NotSaved, close_session, open_session, start_project
from retentive.agent.project_log import INDEX, KEPT_SESSIONS, _index

PROGRESS, FEATURES, SETUP = (f"/memories/project/{name}" for name in ("progress.md", "features.json", "setup.md"))
START: Any
OPEN: Any
CLOSE: Any
START, OPEN, CLOSE = start_project, open_session, close_session  # without types, for calls with invalid arguments
DAY = 1_790_000_000.0  # 2026-09-21


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with retentive.open("sqlite://") as opened:
        yield opened.store()


@pytest.fixture
def project(store: MemoryStore) -> MemoryStore:
    start_project(
        store,
        goal="A shop for tea",
        features=["A visitor sees all teas", Feature("pay", "A visitor pays", ["put one in the basket", "pay"])],
        setup="Run ./init.sh; the shop is then at port 8080.",
        actor="user:ann",
        clock=lambda: DAY,
    )
    return store


def features(store: MemoryStore) -> dict[str, bool]:
    return {feature["id"]: feature["passes"] for feature in json.loads(store.read(FEATURES))["features"]}


def test_a_project_consists_of_three_memories(project: MemoryStore) -> None:
    assert project.read(PROGRESS) == "# Progress\nGoal: A shop for tea\nBegun: 2026-09-21\n"
    assert project.read(SETUP) == "# How to start\nRun ./init.sh; the shop is then at port 8080.\n"
    assert json.loads(project.read(FEATURES)) == {
        "features": [
            {"id": "f1", "description": "A visitor sees all teas", "steps": [], "passes": False},
            {
                "id": "pay",
                "description": "A visitor pays",
                "steps": ["put one in the basket", "pay"],
                "passes": False,
            },
        ]
    }
    assert {str(version.actor) for version in project.versions()} == {"user:ann"}


def test_open_session_reports_the_status(project: MemoryStore) -> None:
    told = open_session(project)
    for part in (
        "Goal: A shop for tea",
        "Run ./init.sh",
        "No session has been recorded yet.",
        "Features: 0 of 2 pass",
        "- not yet: f1: A visitor sees all teas",
        FEATURES,
        PROGRESS,
    ):
        assert part in told


def test_the_next_session_gets_the_record(project: MemoryStore) -> None:
    close_session(
        project, done=["listed the teas", "styled the page"], next="paying", verified=["f1"], clock=lambda: DAY
    )
    assert features(project) == {"f1": True, "pay": False}
    told = open_session(project)
    assert "## Session of 2026-09-21\nDone: listed the teas\nDone: styled the page\nNext: paying\nVerified: f1" in told
    assert "Features: 1 of 2 pass" in told
    assert "not yet: f1" not in told
    close_session(project, done="found that the list is empty", broken=["f1"], verified=["pay"], clock=lambda: DAY)
    assert features(project) == {"f1": False, "pay": True}
    assert project.read(PROGRESS) == (
        "# Progress\nGoal: A shop for tea\nBegun: 2026-09-21\n\n"
        "## Session of 2026-09-21\nDone: found that the list is empty\nVerified: pay\nBroken: f1\n\n"
        "## Session of 2026-09-21\nDone: listed the teas\nDone: styled the page\nNext: paying\nVerified: f1\n"
    )


def recorded(store: MemoryStore, word: str) -> list[int]:
    """Numbers after `word` in the log and in the files of the index, newest first."""
    texts = [store.read(PROGRESS)]
    if any(memory.path == INDEXED for memory in store.memories()):
        names = re.findall(r"^- (\S+\.md): ", store.read(INDEXED), re.MULTILINE)
        texts += [store.read(f"/memories/project/sessions/{name}") for name in names]
    return [int(number) for text in texts for number in re.findall(rf"{word} (\d+)\.", text)]


INDEXED = f"/memories/project/{INDEX}"


def test_older_sessions_move_to_dated_files(project: MemoryStore) -> None:
    """The log keeps the newest sessions. The index lists the files with all others, newest first."""
    days = iter(range(200))
    for n in range(100):
        close_session(project, done=f"step {n}.", clock=lambda: DAY + next(days) * 86_400)
    told, log = open_session(project), project.read(PROGRESS)
    assert [n for n in range(100) if f"step {n}." in told] == [97, 98, 99]
    assert log.count("## Session of") <= KEPT_SESSIONS
    assert log.startswith("# Progress\nGoal: A shop for tea\n")
    assert recorded(project, "step") == list(range(99, -1, -1))
    assert project.read(INDEXED).splitlines() == [
        "# Files of earlier sessions, newest first",
        "- 2026-12-12.md: 21 sessions, from 2026-11-02 to 2026-11-22",
        "- 2026-11-21.md: 21 sessions, from 2026-10-12 to 2026-11-01",
        "- 2026-10-31.md: 21 sessions, from 2026-09-21 to 2026-10-11",
    ]
    assert f"{INDEXED} lists the files of earlier sessions." in told


def test_a_session_is_one_change(project: MemoryStore) -> None:
    """The log, a dated file, the index and the checklist change together."""
    for n in range(KEPT_SESSIONS):
        close_session(project, done=f"step {n}.")
    before = next(iter(project.versions())).revision
    close_session(project, done="the last step", verified=["f1"])
    changed = [version for version in project.versions() if version.revision > before]
    assert {version.path for version in changed} >= {PROGRESS, FEATURES, INDEXED}
    assert len({version.revision for version in changed}) == 1


@pytest.mark.parametrize("size", [100, 700, 1_900, 2_000, 2_100, 9_000])
def test_no_session_is_lost_to_the_size_limit(size: int, project: MemoryStore) -> None:
    """Every memory stays within the limit. A session above it is split."""
    project.change_settings({"max_memory_bytes": 2_000})
    for n in range(12):
        close_session(project, done=f"step {n}. {'ä' * (size // 2)}", next="more", clock=lambda: DAY)
        assert max(memory.size_bytes for memory in project.memories()) <= 2_000
        steps = recorded(project, "step")
        assert steps == list(range(n, n - len(steps), -1))  # the index leaves out its oldest lines
        assert f"step {n}." in open_session(project)
    texts = [project.read(memory.path) for memory in project.memories()]
    assert {n for n in range(12) if any(f"step {n}." in text for text in texts)} == set(range(12))
    assert sum(text.count("ä") for text in texts) == 12 * (size // 2)


def test_a_session_is_recorded_below_a_long_text_of_agents(project: MemoryStore) -> None:
    """The text above the sessions fills the log, so the session gets a file of its own."""
    project.change_settings({"max_memory_bytes": 2_000})
    project.write(PROGRESS, f"# Progress\n{'x' * 1_980}\n")
    close_session(project, done="step 1.")
    close_session(project, done="step 2.")
    assert recorded(project, "step") == [2, 1]
    assert "step 2." in open_session(project)
    assert project.read(PROGRESS) == f"# Progress\n{'x' * 1_980}\n"


def test_a_store_without_room_for_files_keeps_the_newest_sessions(project: MemoryStore) -> None:
    """The older sessions are in the history of the log."""
    project.change_settings({"max_memories": 3})
    for n in range(KEPT_SESSIONS + 5):
        close_session(project, done=f"step {n}.")
    log = project.read(PROGRESS)
    assert (f"step {KEPT_SESSIONS + 4}." in log, "step 0." in log) == (True, False)
    assert len(project.memories()) == 3
    assert any("step 0." in project.version_text(version.id) for version in project.versions(PROGRESS))


def test_a_full_store_keeps_the_newest_sessions(project: MemoryStore) -> None:
    for n in range(20):
        close_session(project, done=f"step {n}. {'x' * 100}")
    project.change_settings({"max_store_bytes": sum(memory.size_bytes for memory in project.memories())})
    close_session(project, done=f"step 20. {'x' * 100}")
    steps = recorded(project, "step")
    assert (steps[0], steps[-1] > 0) == (20, True)
    with pytest.raises(NotSaved, match="limit"):
        close_session(project, done="y" * 10_000)
    assert recorded(project, "step") == steps


def test_the_index_keeps_within_the_limit() -> None:
    lines = [f"- 2026-09-{day:02}.md: 2 sessions, from 2026-09-01 to 2026-09-02\n" for day in range(30, 0, -1)]
    index = _index(lines, 1_000)
    assert len(index.encode()) <= 1_000
    assert index.splitlines()[1] == lines[0].strip()
    assert index.endswith("- older files are not listed\n")
    assert _index(lines, 10_000).count("\n- ") == 30


@pytest.mark.parametrize("mode", ["redact", "flag", "off"])
def test_sessions_with_sensitive_values_are_kept(mode: str, project: MemoryStore) -> None:
    """Masks may be longer than the values, so the redacted log may be over the limit although the text was not."""
    project.change_settings({"max_memory_bytes": 3_000, "sensitive": mode})
    for n in range(10):
        close_session(project, done=f"step {n}. {'AKIAQ3EGVSNB6RTKX2ZP ' * 60}")
        assert max(memory.size_bytes for memory in project.memories()) <= 3_000
    assert recorded(project, "step") == list(range(9, -1, -1))
    texts = [project.read(memory.path) for memory in project.memories()]
    assert any("AKIA" in text for text in texts) == (mode != "redact")


def test_a_rejected_session_changes_nothing(project: MemoryStore) -> None:
    project.change_settings({"sensitive": "reject"})
    before = [(memory.path, memory.version_id) for memory in project.memories()]
    with pytest.raises(NotSaved, match="sensitive"):
        close_session(project, done="the key is AKIAQ3EGVSNB6RTKX2ZP", verified=["f1"])
    assert [(memory.path, memory.version_id) for memory in project.memories()] == before


def test_a_session_under_review_is_one_proposal(project: MemoryStore) -> None:
    for n in range(KEPT_SESSIONS):
        close_session(project, done=f"step {n}.")
    project.change_settings({"review": ["session:*"]})
    before = project.read(PROGRESS)
    close_session(project, done="step 40.", verified=["f1"], actor="session:s")
    assert project.read(PROGRESS) == before
    (proposal,) = project.review.pending()
    project.review.accept([proposal.id], actor="user:ann")
    assert recorded(project, "step") == list(range(40, -1, -1))
    assert features(project)["f1"]


def test_concurrent_sessions_keep_all_changes(lasting_place: str, tmp_path: Path) -> None:
    """Each session applies its change to the result of the sessions before it."""
    ids = [f"f{n}" for n in range(1, 9)]
    with retentive.open(lasting_place) as opened:
        store = opened.store()
        start_project(store, goal="Many hands", features=["a feature"] * 8)
        with ThreadPoolExecutor(8) as pool:
            closing = [pool.submit(close_session, store, done=f"did {name}.", verified=[name]) for name in ids]
            for done in closing:
                done.result(timeout=60)
        assert features(store) == dict.fromkeys(ids, True)
        assert all(f"did {name}." in store.read(PROGRESS) for name in ids)


def test_text_written_by_agents_is_kept(project: MemoryStore) -> None:
    """Agents added extra fields, other headings, and text above the sessions."""
    content = json.loads(project.read(FEATURES))
    content["note"] = "edited"
    content["features"][0]["owner"] = "ann"
    version = project.load(FEATURES)[0].version_id
    project.write(FEATURES, json.dumps(content), if_version=version)
    project.execute({"command": "insert", "path": PROGRESS, "insert_line": 3, "insert_text": "## Decisions\nUse SQL."})
    close_session(project, done="step 1", verified=["f1"])
    kept = json.loads(project.read(FEATURES))
    assert (kept["note"], kept["features"][0]["owner"], kept["features"][0]["passes"]) == ("edited", "ann", True)
    assert "## Decisions\nUse SQL." in open_session(project)


@pytest.mark.parametrize("text", ["", "not JSON", "[]", '{"features": 3}', '{"features": [1]}', "[" * 100_000])
def test_an_invalid_checklist_is_reported_and_never_overwritten(text: str, project: MemoryStore) -> None:
    project.write(FEATURES, text)
    assert f"The checklist {FEATURES} is missing or invalid" in open_session(project)
    with pytest.raises(InvalidInput, match=r"must contain a JSON object"):
        close_session(project, done="step 1", verified=["f1"])
    assert project.read(FEATURES) == text
    assert "Done: step 1" in project.read(PROGRESS)


def test_a_project_is_started_at_once(store: MemoryStore) -> None:
    """A memory that is already there is replaced. Nothing is written if one of the three is refused."""
    store.create(SETUP, "half")
    store.change_settings({"read_only_paths": [PROGRESS]})
    with pytest.raises(NotSaved, match=rf"^{PROGRESS} is read-only$"):
        start_project(store, goal="A shop", setup="make run")
    assert [memory.path for memory in store.memories()] == [SETUP]
    assert store.read(SETUP) == "half"
    store.change_settings({"read_only_paths": []})
    start_project(store, goal="A shop", setup="make run")
    assert store.read(SETUP) == "# How to start\nmake run\n"
    assert "No features are listed" in open_session(store)


def test_an_existing_project_is_not_restarted(project: MemoryStore) -> None:
    before = project.read(PROGRESS)
    with pytest.raises(InvalidInput, match="continue the project with `open_session`"):
        start_project(project, goal="Another")
    assert project.read(PROGRESS) == before


def test_a_store_can_have_several_projects(project: MemoryStore) -> None:
    start_project(project, goal="Another", directory="/memories/other")
    close_session(project, done="step 1", directory="/memories/other")
    assert "Goal: Another" in open_session(project, directory="/memories/other")
    assert "step 1" not in open_session(project)


def test_one_of_two_concurrent_starts_wins(lasting_place: str) -> None:
    """The other session raises an error and does not overwrite the log."""
    with retentive.open(lasting_place) as opened:
        store = opened.store()

        def start(name: str) -> str | None:
            try:
                start_project(store, goal=name)
            except InvalidInput:
                return None
            return name

        with ThreadPoolExecutor(4) as pool:
            won = [name for name in pool.map(start, ["a", "b", "c", "d"]) if name]
        assert len(won) == 1
        assert store.read(PROGRESS).splitlines()[1] == f"Goal: {won[0]}"
        assert [version.operation for version in store.versions(PROGRESS)] == ["created"]


@pytest.mark.parametrize("ask", [open_session, close_session, lambda memory: close_session(memory, verified=["f1"])])
def test_a_missing_project_is_reported(ask: Callable[[MemoryStore], object], store: MemoryStore) -> None:
    with pytest.raises(NotFound, match="create one with start_project"):
        ask(store)
    assert list(store.memories()) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"goal": " "}, "`goal` must not be blank"),
        ({"goal": "x", "features": [Feature("a", "1"), Feature("a", "2")]}, "a unique, non-empty id"),
        ({"goal": "x", "features": [Feature("", "1")]}, "a unique, non-empty id"),
    ],
)
def test_an_invalid_start_is_rejected(options: dict[str, Any], expected: str, store: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match=expected):
        start_project(store, **options)
    assert list(store.memories()) == []


def test_an_unknown_feature_is_rejected(project: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match=r"unknown feature f9 in .*; known features: f1, pay"):
        close_session(project, verified=["f1", "f9"])
    with pytest.raises(InvalidInput, match="f1: the same feature cannot be in both"):
        close_session(project, verified=["f1"], broken=["f1"])
    assert features(project) == {"f1": False, "pay": False}
    assert "## Session" not in project.read(PROGRESS)


@pytest.mark.parametrize(
    "marked",
    [{"verified": ["f1", "the split"]}, {"broken": "f9"}, {"verified": ["f1"], "broken": ["f1"]}],
    ids=repr,
)
def test_work_is_recorded_despite_invalid_features(marked: dict[str, Any], project: MemoryStore) -> None:
    """If one feature is invalid, no feature is marked, and the log lists none."""
    with pytest.raises(InvalidInput, match=r"`done` and `next` were recorded in /memories/project"):
        close_session(project, done="the work of a day", next="the rest", **marked)
    assert features(project) == {"f1": False, "pay": False}
    assert project.read(PROGRESS).endswith("\nDone: the work of a day\nNext: the rest\n")


def test_work_is_recorded_if_the_checklist_is_read_only(project: MemoryStore) -> None:
    project.change_settings({"read_only_paths": [FEATURES]})
    with pytest.raises(NotSaved, match=r"is read-only\. No feature was marked"):
        close_session(project, done="the work of a day", verified="f1")
    assert "Done: the work of a day" in project.read(PROGRESS)


def test_a_project_can_be_in_a_mounted_store(project: MemoryStore) -> None:
    """Texts and errors contain the paths of the mounted tree."""
    with retentive.open("sqlite://") as opened:
        tree = Mounts({"/memories": opened.store(), "/memories/shop": project})
        assert "Goal: A shop for tea" in open_session(tree, directory="/memories/shop/project")
        close_session(tree, done="step 1", verified=["f1"], directory="/memories/shop/project")
        assert features(project) == {"f1": True, "pay": False}
        start_project(tree, goal="Mine", features=["one"])
        assert "Goal: Mine" in opened.store().read(PROGRESS)
        guarded = Mounts({"/memories": opened.store(), "/memories/shop": project.read_only()})
        with pytest.raises(NotSaved, match=r"^/memories/shop/project/progress\.md is read-only$"):
            close_session(guarded, done="step 2", directory="/memories/shop/project")


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: START(store, goal=None),
        lambda store: START(store, goal="\ud800"),
        lambda store: START(store, goal="x", features=5),
        lambda store: START(store, goal="x", features="one"),
        lambda store: START(store, goal="x", features=[5]),
        lambda store: START(5, goal="x"),
        lambda store: OPEN(5),
        lambda store: CLOSE(store, done=5),
        lambda store: CLOSE(store, done=[5]),
        lambda store: CLOSE(5, done="x"),
    ],
)
def test_arguments_of_the_wrong_type_are_rejected(ask: Callable[[Any], object], store: MemoryStore) -> None:
    with pytest.raises(InvalidInput):
        ask(store)
    assert list(store.memories()) == []


def test_a_rejected_write_is_reported(project: MemoryStore) -> None:
    project.change_settings({"read_only": True})
    with pytest.raises(NotSaved, match="is read-only"):
        close_session(project, done="step 1")


def test_text_of_an_entry_cannot_start_another_entry(project: MemoryStore) -> None:
    close_session(project, done="one\n## Session of nobody\ntwo", next=["", "  "])
    assert project.read(PROGRESS).count("\n## Session") == 1
    assert "Done: one ## Session of nobody two\n" in project.read(PROGRESS)
