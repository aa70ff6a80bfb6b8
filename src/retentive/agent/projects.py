"""Long projects over many sessions: a progress log, a feature checklist and setup notes, stored as memories.

A session starts with the text of `open_session` and ends with `close_session`, so the next session knows the finished
work, the next steps and the verified features. A feature passes only after an end-to-end test. The checklist is JSON,
because models rewrite JSON less freely than prose. Source: "Effective harnesses for long-running agents".
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Unpack

from retentive.agent.checks import check_list, check_text
from retentive.agent.errors import NotSaved
from retentive.engine.command_handlers import ABSENT
from retentive.errors import Conflict, InvalidInput, NotFound, RetentiveError
from retentive.integrations.memory import Author
from retentive.mounts import Mounts
from retentive.storage.contract import Clock
from retentive.store import MemoryStore
from retentive.values.paths import ROOT

DIRECTORY = f"{ROOT}/project"
KEPT_SESSIONS = 40  # about 500 bytes each, well below the size limit; older sessions are in the memory's history
SHOWN_SESSIONS = 3
_ATTEMPTS = 50  # one session wins each conflict, so this many conflicts have another cause
_ENTRY = "## Session "
_FEATURES = "features must be a list of strings or Features"
_NO_PROJECT = "no project found in {directory}; create one with start_project"
_RULES = """\
How to work:
- Start the project as described above, and check that it works, before you change anything.
- Work on one feature that does not pass yet. Finish it before you start the next.
- A feature passes only after you tested it from end to end, as its user would. Only then set `passes` to true in {features}. Do not remove or reword features.
- Before you end: leave the work in a state from which someone else can continue, and record the finished work and the next steps in {progress}."""  # noqa: E501 - each rule is one line for the model


@dataclass(frozen=True, slots=True)
class Feature:
    """Feature of the project, with the steps that verify it."""

    id: str
    description: str
    steps: Sequence[str] = ()


def start_project(
    memory: MemoryStore | Mounts,
    *,
    goal: str,
    features: Iterable[Feature | str] = (),
    setup: str = "",
    directory: str = DIRECTORY,
    clock: Clock = time.time,
    **author: Unpack[Author],
) -> None:
    """Write the three memories of a new project: `progress.md`, `features.json` and `setup.md`.

    Features given as strings get the ids `f1`, `f2` and so on. `setup` describes how to start and test the project,
    ideally as the name of a script. `progress.md` is written last, so an interrupted call can be repeated. With
    `Mounts`, the memories are written to the store that is mounted at `directory` or above it. `actor`, `source` and
    `session` are recorded with each change. Raises `InvalidInput` if the project already exists, and `NotSaved` if the
    memory rejects a write.
    """
    _check_memory(memory)
    checklist = _new_checklist(features)
    check_text("goal", goal)
    check_text("setup", setup)
    if not goal.strip():
        raise InvalidInput("goal must not be blank; describe the purpose of the project")

    def new_log(old: str | None) -> str:
        if old is not None:
            raise InvalidInput(f"a project already exists in {directory}; continue it with open_session")
        return f"# Progress\nGoal: {goal.strip()}\nBegun: {_day(clock)}\n"

    new_log(_read(memory, f"{directory}/progress.md")[1])
    how_to_start = f"# How to start\n{setup.strip() or 'Not known yet: write it here once it is.'}\n"
    _save(memory, f"{directory}/setup.md", lambda _old: how_to_start, author)
    _save(memory, f"{directory}/features.json", lambda _old: _json({"features": checklist}), author)
    _save(memory, f"{directory}/progress.md", new_log, author)  # another session may have created the project by now


def open_session(memory: MemoryStore | Mounts, *, directory: str = DIRECTORY) -> str:
    """Return the first prompt of a session: goal, setup, the last sessions, and the features that do not pass yet.

    Raises `NotFound` if there is no project in `directory`.
    """
    _check_memory(memory)
    paths = {name: f"{directory}/{name}" for name in ("progress.md", "features.json", "setup.md")}
    progress, features, setup = (_read(memory, path)[1] for path in paths.values())
    if progress is None:
        raise NotFound(_NO_PROJECT.format(directory=directory))
    head, entries = _entries(progress)
    parts = [
        f"You continue a project from earlier sessions. Its record is in {directory}.",
        head.strip(),
        (setup or "").strip(),
        "".join(entries[:SHOWN_SESSIONS]).strip() or "No session has been recorded yet.",
        _checklist(features, paths["features.json"]),
        _RULES.format(features=paths["features.json"], progress=paths["progress.md"]),
    ]
    return "\n\n".join(part for part in parts if part)


def close_session(
    memory: MemoryStore | Mounts,
    *,
    done: str | Sequence[str] = (),
    next: str | Sequence[str] = (),  # noqa: A002 - the word a reader expects beside `done`
    verified: str | Sequence[str] = (),
    broken: str | Sequence[str] = (),
    directory: str = DIRECTORY,
    clock: Clock = time.time,
    **author: Unpack[Author],
) -> None:
    """Record a session: work done, next steps, features that now pass (`verified`) or no longer pass (`broken`).

    Each memory is updated atomically. If another session changes it concurrently, the update is repeated on the new
    text, so both changes are kept. `actor`, `source` and `session` are recorded with each change.

    Raises `InvalidInput` for an unknown feature or an invalid checklist, `NotFound` and `NotSaved`. If the features
    cannot be marked, no feature is marked, but `done` and `next` are still recorded. The error message says so.
    """
    _check_memory(memory)
    arguments = {"done": done, "next": next, "verified": verified, "broken": broken}
    texts = {name: _texts(name, value) for name, value in arguments.items()}
    if _read(memory, f"{directory}/progress.md")[1] is None:
        raise NotFound(_NO_PROJECT.format(directory=directory))
    problem = _mark(memory, f"{directory}/features.json", texts["verified"], texts["broken"], author)
    marked = ([], []) if problem else (texts["verified"], texts["broken"])
    entry = _entry(_day(clock), texts["done"], texts["next"], *marked)
    if problem and not (texts["done"] or texts["next"]):
        raise problem
    _save(memory, f"{directory}/progress.md", lambda old: _with_entry(old, entry, directory), author)
    if problem:
        raise type(problem)(f"{problem}. No feature was marked; done and next are recorded in {directory}/progress.md")


def _mark(
    memory: MemoryStore | Mounts, path: str, verified: Sequence[str], broken: Sequence[str], author: Author
) -> InvalidInput | NotSaved | None:
    """Mark all the features in the checklist, or none of them. Returns the error if none was marked."""
    if both := sorted(set(verified) & set(broken)):
        return InvalidInput(f"{', '.join(both)} cannot be both verified and broken; name each feature once")
    try:
        if verified or broken:
            _save(memory, path, lambda old: _mark_features(old, path, verified, broken), author)
    except (InvalidInput, NotSaved) as error:
        return error
    return None


def _check_memory(memory: object) -> None:
    if not isinstance(memory, MemoryStore | Mounts):
        raise InvalidInput("memory must be a MemoryStore or Mounts")


def _texts(name: str, value: object) -> list[str]:
    """Convert a string or several strings to a list without blank strings."""
    texts = [value] if isinstance(value, str) else check_list(value, f"{name} must be a string or a list of strings")
    for text in texts:
        check_text(name, text)
    return [text for text in texts if text.strip()]


def _save(memory: MemoryStore | Mounts, path: str, change: Callable[[str | None], str], author: Author) -> None:
    """Replace the text of a memory with `change(text)`. Repeats the change if another session wrote concurrently.

    `change` is called with None if the memory does not exist.
    """
    for _ in range(_ATTEMPTS):
        version, old = _read(memory, path)
        text = change(old)
        try:
            memory.write(path, text, if_version=version, **author)
        except Conflict:
            continue
        except RetentiveError as error:
            if error.code == InvalidInput.code:
                raise  # an invalid actor, source or session
            raise NotSaved(str(error)) from None
        return
    raise NotSaved(f"saving {path} failed: other sessions changed it {_ATTEMPTS} times in a row; try again later")


def _read(memory: MemoryStore | Mounts, path: str) -> tuple[str, str | None]:
    """Return the version id and the text of a memory. If it does not exist, an empty id and None."""
    try:
        entry, text = memory.load(path)
    except NotFound:
        return ABSENT, None
    return entry.version_id, text


def _new_checklist(features: Iterable[Feature | str]) -> list[dict[str, Any]]:
    listed = check_list(features, _FEATURES)
    if not all(isinstance(feature, Feature | str) for feature in listed):
        raise InvalidInput(_FEATURES)
    entries = [Feature(f"f{n}", each) if isinstance(each, str) else each for n, each in enumerate(listed, 1)]
    ids = [feature.id for feature in entries]
    if len(set(ids)) < len(ids) or not all(ids):
        raise InvalidInput("each feature needs a unique, non-empty id")
    return [
        {"id": feature.id, "description": feature.description, "steps": list(feature.steps), "passes": False}
        for feature in entries
    ]


def _mark_features(text: str | None, path: str, verified: Sequence[str], broken: Sequence[str]) -> str:
    """Set `passes` of the features and keep everything else in the checklist."""
    content, features = _parse_checklist(text)
    if features is None:
        raise InvalidInput(
            f"{path} must contain a JSON object whose `features` is a list; restore a valid version from its history"
        )
    known = {str(feature.get("id")): feature for feature in features}
    if unknown := [name for name in (*verified, *broken) if name not in known]:
        names = ", ".join(known) or "none"
        raise InvalidInput(f"unknown feature {', '.join(unknown)} in {path}; known features: {names}")
    for name in (*verified, *broken):
        known[name]["passes"] = name in verified
    return _json(content)


def _parse_checklist(text: str | None) -> tuple[Any, list[dict[str, Any]] | None]:
    try:
        content = json.loads(text or "")
    except (ValueError, RecursionError):
        return ABSENT, None
    features = content.get("features") if isinstance(content, Mapping) else None
    if not isinstance(features, list) or not all(isinstance(feature, dict) for feature in features):
        return content, None
    return content, features


def _checklist(text: str | None, path: str) -> str:
    features = _parse_checklist(text)[1]
    if features is None:
        return f"The checklist {path} is missing or invalid: restore it from its history before you start."
    if not features:
        return f"No features are listed in {path} yet: list them first, each with `passes` false."
    failing = [feature for feature in features if feature.get("passes") is not True]
    lines = [f"Features: {len(features) - len(failing)} of {len(features)} pass ({path})."]
    lines += [f"- not yet: {feature.get('id')}: {feature.get('description')}" for feature in failing]
    return "\n".join(lines)


def _entries(progress: str) -> tuple[str, list[str]]:
    """Split the log into the text above the sessions and the text of each session, newest first."""
    head, *entries = f"\n{progress}".split(f"\n{_ENTRY}")
    return head[1:], [f"{_ENTRY}{entry.rstrip()}\n\n" for entry in entries]


def _with_entry(progress: str | None, entry: str, directory: str) -> str:
    if progress is None:
        raise NotFound(_NO_PROJECT.format(directory=directory))
    head, entries = _entries(progress)
    kept = "".join([entry, *entries[: KEPT_SESSIONS - 1]])
    return f"{head.rstrip()}\n\n{kept.rstrip()}\n"


def _entry(
    day: str, done: Sequence[str], next_steps: Sequence[str], verified: Sequence[str], broken: Sequence[str]
) -> str:
    lines = [f"{_ENTRY}of {day}"]
    for title, texts in (("Done", done), ("Next", next_steps)):
        # Joined to one line: a line of the text must not look like the heading of another session.
        lines += [f"{title}: {' '.join(text.split())}" for text in texts]
    lines += [f"{title}: {', '.join(ids)}" for title, ids in (("Verified", verified), ("Broken", broken)) if ids]
    return "\n".join(lines) + "\n\n"


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _day(clock: Clock) -> str:
    return datetime.fromtimestamp(clock(), UTC).date().isoformat()
