"""Projects over many sessions: each session continues from the last one, even with concurrent writers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive import InvalidInput, MemoryStore, Mounts, NotFound
from retentive.agent import Feature, NotSaved, close_session, open_session, start_project
from retentive.agent.projects import KEPT_SESSIONS

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


def test_only_the_last_sessions_are_shown_and_kept(project: MemoryStore) -> None:
    """The log keeps a limited number of sessions. The versions of the log contain earlier sessions."""
    for n in range(KEPT_SESSIONS + 5):
        close_session(project, done=f"step {n}.")
    told, log = open_session(project), project.read(PROGRESS)
    assert [n for n in range(KEPT_SESSIONS + 5) if f"step {n}." in told] == [42, 43, 44]
    assert log.count("## Session of") == KEPT_SESSIONS
    assert log.startswith("# Progress\nGoal: A shop for tea\n")
    assert "step 4." not in log
    assert any("step 4." in project.version_text(version.id) for version in project.versions(PROGRESS))


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


def test_a_concurrent_change_is_kept(project: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer changes the memory between the read and the save. The next attempt starts from the new text."""
    load = project.load
    notes = ["Note: 3", "Note: 2", "Note: 1"]

    def loading(path: str) -> Any:
        found = load(path)
        if path == PROGRESS and notes:
            project.execute({"command": "insert", "path": PROGRESS, "insert_line": 3, "insert_text": notes.pop()})
        return found

    monkeypatch.setattr(project, "load", loading)
    close_session(project, done="step 1")
    assert "Note: 3\nNote: 2\nNote: 1\n\n## Session of " in project.read(PROGRESS)
    assert "Done: step 1" in project.read(PROGRESS)


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


def test_an_interrupted_start_can_be_repeated(store: MemoryStore) -> None:
    """The log is written last. The repetition overwrites the other memories."""
    store.create(SETUP, "half")
    start_project(store, goal="A shop", setup="make run")
    assert store.read(SETUP) == "# How to start\nmake run\n"
    assert "No features are listed" in open_session(store)


def test_an_existing_project_is_not_restarted(project: MemoryStore) -> None:
    before = project.read(PROGRESS)
    with pytest.raises(InvalidInput, match="continue it with open_session"):
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
        ({"goal": " "}, "goal must not be blank"),
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
    with pytest.raises(InvalidInput, match="f1 cannot be both"):
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
    with pytest.raises(InvalidInput, match=r"No feature was marked; done and next are recorded in /memories/project"):
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
