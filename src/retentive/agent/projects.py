"""Work over many sessions: a progress log, a checklist of features and how to start, kept in the memory.

Each session begins with what `open_session` tells and ends with `close_session`, so that whoever comes next knows
what is done, what is not, and what was verified. A feature passes only once it was tried from end to end; the list
says so in JSON, which models change less freely than prose. Source: "Effective harnesses for long-running agents".
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from retentive.agent.characters import check_text
from retentive.agent.errors import NotSaved
from retentive.errors import InvalidInput, NotFound
from retentive.mounts import Mounts
from retentive.storage.contract import Actor, Clock
from retentive.store import MemoryStore
from retentive.values.paths import ROOT

DIRECTORY = f"{ROOT}/project"
KEPT_SESSIONS = 40  # of some 500 bytes each, far from the limit of a memory; older ones are in its history
SHOWN_SESSIONS = 3
_ATTEMPTS = 50  # each lost race was won by another session, so this many say that something else is wrong
_ENTRY = "## Session "
_NO_PROJECT = "there is no project in {directory}; start_project makes one"
_RULES = """\
How to work:
- Start the project as told above, and see that it works, before you change anything.
- Take one feature that does not pass yet. Finish it before you take the next.
- A feature passes only once you have tried it from end to end, as its user would. Only then is `passes` true in {features}. Do not remove or reword features.
- Before you end: leave the work in a state someone else can go on from, and write in {progress} what is done and what comes next."""  # noqa: E501 - lines a model reads


@dataclass(frozen=True, slots=True)
class Feature:
    """Something the project is to be able to do, and the steps that show that it does."""

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
    actor: Actor | str | None = None,
    clock: Clock = time.time,
) -> None:
    """Write the three memories of a new project: `progress.md`, `features.json`, `setup.md`.

    A feature given as a text gets an id, `f1`, `f2`, ... `setup` says how the project is started and tried, at best
    the name of a script. `progress.md` is written last: a start that was interrupted is made again. With `Mounts` the
    project lies in the store that is mounted at or above `directory`. Raises `InvalidInput` if the project is there,
    `NotSaved` if the memory refuses it.
    """
    _check_memory(memory)
    listed = _listed(features)
    check_text("goal", goal)
    check_text("setup", setup)
    if not goal.strip():
        raise InvalidInput("goal must say what the project is for")
    _absent(directory, "", _read(memory, f"{directory}/progress.md")[1])
    parts = {
        "setup.md": f"# How to start\n{setup.strip() or 'Not known yet: write it here once it is.'}\n",
        "features.json": _json({"features": listed}),
    }
    for name, text in parts.items():
        _save(memory, f"{directory}/{name}", partial(_instead, text), actor)
    log = f"# Progress\nGoal: {goal.strip()}\nBegun: {_day(clock)}\n"
    _save(memory, f"{directory}/progress.md", partial(_absent, directory, log), actor)


def open_session(memory: MemoryStore | Mounts, *, directory: str = DIRECTORY) -> str:
    """The text to begin a session with: goal, how to start, the last sessions, what passes and what does not.

    Raises `NotFound` if there is no project.
    """
    _check_memory(memory)
    paths = {name: f"{directory}/{name}" for name in ("progress.md", "features.json", "setup.md")}
    progress, features, setup = (_read(memory, path)[1] for path in paths.values())
    if progress is None:
        raise NotFound(_NO_PROJECT.format(directory=directory))
    head, entries = _entries(progress)
    parts = [
        f"You go on with a project that was worked on before. Its record is in {directory}.",
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
    actor: Actor | str | None = None,
    clock: Clock = time.time,
) -> None:
    """Record a session: what was done, what comes next, which features now pass (`verified`) or no more (`broken`).

    Each memory is changed in one step; if another session changed it meanwhile, the change is made again on what that
    one left, so nothing of either is lost. Raises `InvalidInput` for a feature that is not on the list or a checklist
    that cannot be read, `NotFound`, `NotSaved`. Where the features could not be marked, none was, but what was done and
    what comes next is recorded all the same, and the error says so.
    """
    _check_memory(memory)
    texts = {"done": done, "next": next, "verified": verified, "broken": broken}
    given = {what: _texts(what, value) for what, value in texts.items()}
    if _read(memory, f"{directory}/progress.md")[1] is None:
        raise NotFound(_NO_PROJECT.format(directory=directory))
    problem = _mark(memory, f"{directory}/features.json", given["verified"], given["broken"], actor)
    marked = ([], []) if problem else (given["verified"], given["broken"])
    entry = _entry(_day(clock), given["done"], given["next"], *marked)
    if problem and not (given["done"] or given["next"]):
        raise problem
    _save(memory, f"{directory}/progress.md", lambda old: _with_entry(old, entry, directory), actor)
    if problem:
        raise type(problem)(f"{problem}. No feature was marked; done and next are recorded in {directory}/progress.md")


def _mark(
    memory: MemoryStore | Mounts, path: str, verified: Sequence[str], broken: Sequence[str], actor: Actor | str | None
) -> InvalidInput | NotSaved | None:
    """Mark features in the checklist, all or none; what was wrong if none."""
    if both := sorted(set(verified) & set(broken)):
        return InvalidInput(f"{', '.join(both)} cannot be both verified and broken")
    try:
        if verified or broken:
            _save(memory, path, lambda old: _marked(old, path, verified, broken), actor)
    except (InvalidInput, NotSaved) as error:
        return error
    return None


def _check_memory(memory: object) -> None:
    if not isinstance(memory, MemoryStore | Mounts):
        raise InvalidInput("a project lies in a MemoryStore or Mounts")


def _texts(what: str, given: object) -> list[str]:
    """One text or several, as a list without blank ones."""
    listed: list[Any] = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [None]
    for text in listed:
        check_text(what, text)
    return [text for text in listed if text.strip()]


def _save(
    memory: MemoryStore | Mounts, path: str, change: Callable[[str | None], str], actor: Actor | str | None
) -> None:
    """Write what `change` makes of the text there is (None: none), again and again until nobody came between."""
    store, inside = memory.store_of(path) if isinstance(memory, Mounts) else (memory, path)
    for _ in range(_ATTEMPTS):
        version, old = _read(memory, path)
        reply = store.save(inside, change(old), if_version=version, actor=actor)
        if not reply.is_error:
            return
        if reply.code != "conflict":
            raise NotSaved(reply.text if inside == path else f"{path}: {reply.text}")
    raise NotSaved(f"{path} was changed by others {_ATTEMPTS} times while it was to be saved")


def _instead(text: str, _old: str | None) -> str:
    return text


def _absent(directory: str, text: str, old: str | None) -> str:
    """`text` for a memory that is not there yet, also if somebody else makes it meanwhile."""
    if old is not None:
        raise InvalidInput(f"there is a project in {directory}; open_session goes on with it")
    return text


def _read(memory: MemoryStore | Mounts, path: str) -> tuple[str | None, str | None]:
    """The version and the text of a memory, None for both if it is not there."""
    try:
        found, text = memory.load(path)
    except NotFound:
        return None, None
    return found.version_id, text


def _listed(features: Iterable[Feature | str]) -> list[dict[str, Any]]:
    if isinstance(features, str) or not isinstance(features, Iterable):
        raise InvalidInput("features must be a list of texts or Features")
    features = list(features)
    if not all(isinstance(feature, Feature | str) for feature in features):
        raise InvalidInput("features must be a list of texts or Features")
    given = [
        feature if isinstance(feature, Feature) else Feature(f"f{n}", feature) for n, feature in enumerate(features, 1)
    ]
    ids = [feature.id for feature in given]
    if len(set(ids)) < len(ids) or not all(ids):
        raise InvalidInput("each feature needs an id of its own")
    return [
        {"id": feature.id, "description": feature.description, "steps": list(feature.steps), "passes": False}
        for feature in given
    ]


def _marked(text: str | None, path: str, verified: Sequence[str], broken: Sequence[str]) -> str:
    """The checklist with features marked; whatever else an agent wrote in it stays."""
    content, features = _checklist_of(text)
    if features is None:
        raise InvalidInput(f"{path} is not the JSON it was: an object with a list `features`; its history has it")
    known = {str(feature.get("id")): feature for feature in features}
    if unknown := [name for name in (*verified, *broken) if name not in known]:
        raise InvalidInput(f"no feature {', '.join(unknown)} in {path}; there are {', '.join(known) or 'none'}")
    for name in verified:
        known[name]["passes"] = True
    for name in broken:
        known[name]["passes"] = False
    return _json(content)


def _checklist_of(text: str | None) -> tuple[Any, list[dict[str, Any]] | None]:
    try:
        content = json.loads(text or "")
    except (ValueError, RecursionError):
        return None, None
    features = content.get("features") if isinstance(content, Mapping) else None
    if not isinstance(features, list) or not all(isinstance(feature, dict) for feature in features):
        return content, None
    return content, features


def _checklist(text: str | None, path: str) -> str:
    features = _checklist_of(text)[1]
    if features is None:
        return f"The checklist {path} is missing or broken: mend it first, its history has what it was."
    if not features:
        return f"No features are listed in {path} yet: list them first, each with `passes` false."
    missing = [feature for feature in features if feature.get("passes") is not True]
    lines = [f"Features: {len(features) - len(missing)} of {len(features)} pass ({path})."]
    lines += [f"- not yet: {feature.get('id')}: {feature.get('description')}" for feature in missing]
    return "\n".join(lines)


def _entries(progress: str) -> tuple[str, list[str]]:
    """What stands above the sessions, and the text of each, as they stand: newest first."""
    head, *entries = f"\n{progress}".split(f"\n{_ENTRY}")
    return head[1:], [f"{_ENTRY}{entry.rstrip()}\n\n" for entry in entries]


def _with_entry(progress: str | None, entry: str, directory: str) -> str:
    if progress is None:
        raise NotFound(_NO_PROJECT.format(directory=directory))
    head, entries = _entries(progress)
    kept = "".join([entry, *entries[: KEPT_SESSIONS - 1]])
    return f"{head.rstrip()}\n\n{kept.rstrip()}\n"


def _entry(
    day: str, done: Sequence[str], following: Sequence[str], verified: Sequence[str], broken: Sequence[str]
) -> str:
    lines = [f"{_ENTRY}of {day}"]
    for title, texts in (("Done", done), ("Next", following)):
        # A line of its own in an entry must not look like the start of another.
        lines += [f"{title}: {' '.join(text.split())}" for text in texts]
    if verified:
        lines.append(f"Verified: {', '.join(verified)}")
    if broken:
        lines.append(f"Broken: {', '.join(broken)}")
    return "\n".join(lines) + "\n\n"


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _day(clock: Clock) -> str:
    return datetime.fromtimestamp(clock(), UTC).date().isoformat()
