"""Long projects over many sessions: a progress log, a feature checklist and setup notes, stored as memories.

A session starts with the prompt that `open_session` returns, and ends with a call of `close_session`. So each session
knows the finished work, the next steps and the verified features. A feature passes only after an end-to-end test. The
checklist is JSON, because models rewrite JSON less freely than prose.

Source: "Effective harnesses for long-running agents".
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar, Unpack

from retentive.agent.checks import check_list, check_text
from retentive.agent.errors import NotSaved
from retentive.agent.project_files import ProjectFiles, change_project, error_of_refusal
from retentive.agent.project_log import ENTRY, INDEX, PLANS, LogPlan, add_entry, indexed, split_log
from retentive.errors import InvalidInput, NotFound, Refused, RetentiveError
from retentive.frozen import dataclass
from retentive.integrations.memory import Author
from retentive.mounts import Mounts
from retentive.storage.contract import Clock
from retentive.store import MemoryStore
from retentive.values.paths import ROOT

DIRECTORY = f"{ROOT}/project"
SHOWN_SESSIONS = 3
_SHOWN_CHARS = 16_000  # one page of `view`; maximum characters that are shown of a file of earlier sessions
_LOG, _CHECKLIST, _SETUP = "progress.md", "features.json", "setup.md"
_LIMITS = ("too_large", "too_many", "store_too_large", "not_a_directory")  # refusals that another plan may avoid
T = TypeVar("T")
_FEATURES = "`features` must be a list of strings or Features"
_NO_PROJECT = "no project found in {directory}; create one with start_project"
_RULES = """\
How to work:
- Start the project as described above, and check that it works, before you change anything.
- Work on one feature that does not pass yet. Finish it before you start the next.
- A feature passes only after you tested it from end to end, as its user would. Only then set `passes` to true in {features}. Do not remove or reword features.
- Before you end: leave the work in a state from which someone else can continue, and record the finished work and the next steps in {progress}."""  # noqa: E501 - each rule is one line for the model


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of the project, with the steps that verify it."""

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
    """Write the memories of a new project in one transaction: `progress.md`, `features.json` and `setup.md`.

    Features that are strings get the ids `f1`, `f2` and so on. `setup` describes how to start and test the project.
    Ideally, it names a script that does this. With `Mounts`, the memories are written to the store that is mounted at
    `directory` or above it. `actor`, `source` and `session` are recorded with each change.

    Raises `InvalidInput` if the project already exists, and `NotSaved` if a memory cannot be written.
    """
    _check_memory(memory)
    checklist = _new_checklist(features)
    check_text("`goal`", goal)
    check_text("`setup`", setup)
    if not goal.strip():
        raise InvalidInput("`goal` must not be blank; describe the purpose of the project")

    def write(files: ProjectFiles) -> None:
        if files.read(_LOG) is not None:
            raise InvalidInput(f"a project already exists in {directory}; continue the project with `open_session`")
        files.put(_SETUP, f"# How to start\n{setup.strip() or 'Not known yet: write it here once it is.'}\n")
        files.put(_CHECKLIST, _json({"features": checklist}))
        files.put(_LOG, f"# Progress\nGoal: {goal.strip()}\nBegun: {_day(clock)}\n")

    _changed(memory, directory, [write], author)


def open_session(memory: MemoryStore | Mounts, *, directory: str = DIRECTORY) -> str:
    """Return the first prompt of a session: goal, setup, the last sessions, and the features that do not pass yet.

    Raises `NotFound` if there is no project in `directory`.
    """
    _check_memory(memory)
    texts = {name: _read(memory, f"{directory}/{name}") for name in (_LOG, _CHECKLIST, _SETUP, INDEX)}
    progress = texts[_LOG]
    if progress is None:
        raise NotFound(_NO_PROJECT.format(directory=directory))
    head, entries = split_log(progress)
    earlier = texts[INDEX] is not None
    if earlier and not entries:  # the log had no room for the newest session
        entries = [_newest_archived(memory, directory, texts[INDEX] or "")]
    parts = [
        f"You continue a project from earlier sessions. Its record is in {directory}.",
        head.strip(),
        (texts[_SETUP] or "").strip(),
        "".join(entries[:SHOWN_SESSIONS]).strip() or "No session has been recorded yet.",
        f"{directory}/{INDEX} lists the files of earlier sessions." if earlier else "",
        _checklist(texts[_CHECKLIST], f"{directory}/{_CHECKLIST}"),
        _RULES.format(features=f"{directory}/{_CHECKLIST}", progress=f"{directory}/{_LOG}"),
    ]
    return "\n\n".join(part for part in parts if part)


def close_session(
    memory: MemoryStore | Mounts,
    *,
    done: str | Sequence[str] = (),
    next: str | Sequence[str] = (),  # noqa: A002 - readers expect this word next to `done`
    verified: str | Sequence[str] = (),
    broken: str | Sequence[str] = (),
    directory: str = DIRECTORY,
    clock: Clock = time.time,
    **author: Unpack[Author],
) -> None:
    """Record a session: work done, next steps, and features that now pass (`verified`) or no longer pass (`broken`).

    Either all memories change, or none. Changes by other sessions are kept. If the log in `progress.md` gets too long,
    its older sessions move to dated files. `sessions/index.md` lists these files, newest first. If the store has no
    room for another file, the older sessions remain only in the history of `progress.md`. `actor`, `source` and
    `session` are recorded with each change.

    Raises `InvalidInput` for an unknown feature or an invalid checklist, `NotFound` if there is no project, and
    `NotSaved` if a memory cannot be written. If a feature cannot be marked, none is marked, but `done` and `next` are
    still recorded. The error message says so.
    """
    _check_memory(memory)
    arguments = {"done": done, "next": next, "verified": verified, "broken": broken}
    texts = {name: _texts(name, value) for name, value in arguments.items()}
    day = _day(clock)

    def record(files: ProjectFiles, plan: LogPlan) -> InvalidInput | Refused | None:
        if files.read(_LOG) is None:
            raise NotFound(_NO_PROJECT.format(directory=directory))
        problem = _mark(files, f"{directory}/{_CHECKLIST}", texts["verified"], texts["broken"])
        if problem and not (texts["done"] or texts["next"]):
            raise problem
        marked = ([], []) if problem else (texts["verified"], texts["broken"])
        add_entry(files, _LOG, _entry(day, texts["done"], texts["next"], *marked), day, plan)
        return problem

    problem = _changed(memory, directory, [partial(record, plan=plan) for plan in PLANS], author)
    if problem is None:
        return
    recorded = f"No feature was marked. `done` and `next` were recorded in {directory}/{_LOG}"
    if isinstance(problem, Refused):
        raise NotSaved(f"{error_of_refusal(memory, directory, problem)}. {recorded}")
    raise type(problem)(f"{problem}. {recorded}")


def _changed(
    memory: MemoryStore | Mounts, directory: str, ways: Sequence[Callable[[ProjectFiles], T]], author: Author
) -> T:
    """Call the functions in `ways`, each in a new transaction, until one of them stays within the store's limits."""
    first: Refused | None = None
    for way in ways:
        try:
            return change_project(memory, directory, way, **author)
        except Refused as refusal:
            first = first or refusal
            if refusal.key not in _LIMITS:
                break
        except (InvalidInput, NotFound):
            raise
        except RetentiveError as error:
            raise NotSaved(str(error)) from None
    assert first is not None
    raise NotSaved(str(error_of_refusal(memory, directory, first)))


def _mark(
    files: ProjectFiles, path: str, verified: Sequence[str], broken: Sequence[str]
) -> InvalidInput | Refused | None:
    """Mark the features in the checklist. If one cannot be marked, mark none and return the error."""
    if both := sorted(set(verified) & set(broken)):
        return InvalidInput(f"{', '.join(both)}: the same feature cannot be in both `verified` and `broken`")
    try:
        if verified or broken:
            files.put(_CHECKLIST, _mark_features(files.read(_CHECKLIST), path, verified, broken))
    except InvalidInput as error:
        return error
    except Refused as refusal:
        if refusal.key == "too_large_to_keep":  # storage refused the text, and may have rolled back the transaction
            raise
        return refusal
    return None


def _check_memory(memory: object) -> None:
    if not isinstance(memory, MemoryStore | Mounts):
        raise InvalidInput("`memory` must be a MemoryStore or Mounts")


def _texts(name: str, value: object) -> list[str]:
    """Convert a string or several strings to a list without blank strings."""
    texts = [value] if isinstance(value, str) else check_list(value, f"`{name}` must be a string or a list of strings")
    for text in texts:
        check_text(f"`{name}`", text)
    return [text for text in texts if text.strip()]


def _read(memory: MemoryStore | Mounts, path: str) -> str | None:
    try:
        return memory.load(path)[1]
    except NotFound:
        return None


def _newest_archived(memory: MemoryStore | Mounts, directory: str, index: str) -> str:
    """Text of the newest file of earlier sessions, truncated if it is long."""
    for name in indexed(index):
        path = f"{directory}/{name}"
        if text := _read(memory, path):
            cut = f"\n[Truncated: view {path} for the rest.]" if len(text) > _SHOWN_CHARS else ""
            return f"{text[:_SHOWN_CHARS]}{cut}\n"
    return ""


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
    """Return the checklist `text` with `passes` set to true for `verified` features, and to false for `broken` ones."""
    content, features = _parse_checklist(text)
    if features is None:
        raise InvalidInput(
            f"{path} must contain a JSON object whose `features` is a list; restore a valid version from the history"
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
        return None, None
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


def _entry(
    day: str, done: Sequence[str], next_steps: Sequence[str], verified: Sequence[str], broken: Sequence[str]
) -> str:
    lines = [f"{ENTRY}of {day}"]
    for title, texts in (("Done", done), ("Next", next_steps)):
        # Each text is joined to one line, because a line in it could look like the heading of another session.
        lines += [f"{title}: {' '.join(text.split())}" for text in texts]
    lines += [f"{title}: {', '.join(ids)}" for title, ids in (("Verified", verified), ("Broken", broken)) if ids]
    return "\n".join(lines) + "\n\n"


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _day(clock: Clock) -> str:
    return datetime.fromtimestamp(clock(), UTC).date().isoformat()
