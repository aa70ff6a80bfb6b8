"""`init`: create an empty memory store, or one with the memories for a project of many sessions."""

from __future__ import annotations

import re

import click

from retentive.agent.projects import DIRECTORY, Feature, start_project
from retentive.cli import output
from retentive.cli.location import Location, shown, take_over
from retentive.cli.parameters import MEMORY_PATH
from retentive.errors import NotFound
from retentive.frozen import dataclass
from retentive.locations import find_store, is_foreign, location_exists
from retentive.opening import DEFAULT_KEY
from retentive.store import MemoryStore
from retentive.values.replies import Reply

NAMES = ("progress.md", "features.json", "setup.md")
_NO_GOAL = "not written yet; describe the purpose of the project here"
_FEATURE = re.compile(r"(?P<id>[\w.-]+):\s+(?P<text>\S.*)", re.DOTALL)
_PROJECT_CODE = """\
import os

import retentive
from retentive.agent import Agent, close_session, open_session

with retentive.open({location}) as opened:
    memory = opened.store({key!r})
    with Agent(memory=memory) as agent:
        print(agent.ask(open_session(memory{directory})))
    close_session(memory, done="...", next="..."{directory})
"""
_EMPTY_CODE = """\
import os

import retentive

store = retentive.open({location}).store({key!r})
"""


@dataclass(frozen=True, slots=True)
class Made:
    """Result of `init`.

    `at` is the location without its password. `store` is the key of the store. `made` has the paths of the new
    memories. `code` is a program that uses the store. `is_new` is False if the store existed before. `took_over` is
    True if existing plain files became the memories.
    """

    at: str
    store: str
    is_new: bool
    memories: int
    made: tuple[str, ...]
    code: str
    took_over: bool = False


@output.command(json="Print a JSON object.")
@click.option("--pattern", type=click.Choice(["project"]), help="Add the record of a project to the store.")
@click.option("--goal", metavar="TEXT", help="Purpose of the project. Without it, progress.md has a line to fill in.")
@click.option(
    "--feature",
    "features",
    metavar='"ID: TEXT"',
    multiple=True,
    help="A feature of the project; may be repeated. Features without an id get the ids f1, f2 and so on.",
)
@click.option("--setup", metavar="COMMAND", help="Command that starts and tests the project.")
@click.option("--directory", metavar="PATH", type=MEMORY_PATH, help=f"Directory of the record.  [default: {DIRECTORY}]")
def init(
    location: Location,
    *,
    pattern: str | None,
    goal: str | None,
    features: tuple[str, ...],
    setup: str | None,
    directory: str | None,
) -> None:
    """Create the location and the memory store, and print code that uses them. Existing memories are kept.

    With --pattern project, also create the record of a project that takes many sessions. The record has three memories
    in /memories/project: progress.md has the progress and the next step, features.json has the features and tells
    whether each passes its tests, and setup.md has the command that starts the project. If the record exists, init
    changes nothing and exits with status 4.
    """
    given = {"--goal": goal, "--feature": features or None, "--setup": setup, "--directory": directory}
    if pattern is None and (alone := [name for name, value in given.items() if value is not None]):
        raise click.UsageError(f"{alone[0]} needs `--pattern project`.")
    if goal is not None and not goal.strip():
        raise click.UsageError("--goal must not be empty: describe the purpose of the project.")
    is_new, took_over = not _exists(location), is_foreign(location.url)
    with location.created() as store:
        if took_over:
            take_over(store)
        target = None if pattern is None else (directory or DIRECTORY).rstrip("/")
        if target is not None:
            _refuse_second(store, target)
            listed = [_feature(number, text) for number, text in enumerate(features, 1)]
            start_project(store, goal=goal or _NO_GOAL, features=listed, setup=setup or "", directory=target)
        key, memories = store.key or location.store_key, store.usage().memories
    paths = () if target is None else tuple(f"{target}/{name}" for name in NAMES)
    code = _code(location, key, target)
    made = Made(location.shown, key, is_new, memories, paths, code, took_over=took_over and bool(memories))
    output.emit(made, plain=_report(made, has_goal=goal is not None))


def _exists(location: Location) -> bool:
    if not location_exists(location.url):
        return False
    with location.opened() as found:
        return find_store(found.backend, location.store_key) is not None


def _refuse_second(store: MemoryStore, directory: str) -> None:
    try:
        store.load(f"{directory}/{NAMES[0]}")
    except NotFound:
        return
    text = f"Error: {directory} already has a project, so nothing was changed; `open_session` continues it"
    output.end(Reply(text, is_error=True, code="already_exists"))


def _feature(number: int, given: str) -> Feature:
    found = _FEATURE.fullmatch(given.strip())
    return Feature(found["id"], found["text"]) if found else Feature(f"f{number}", given.strip())


def _code(location: Location, key: str, directory: str | None) -> str:
    """Return a program that uses the memory store.

    If the URL of the location contains a password, the program reads the URL from the environment.
    """
    opened = repr(location.url) if shown(location.url) == location.url else 'os.environ["RETENTIVE_AT"]'
    opened += f", keys={location.keys!r}" if location.keys is not None else ""
    elsewhere = "" if directory in {None, DIRECTORY} else f", directory={directory!r}"
    form = _EMPTY_CODE if directory is None else _PROJECT_CODE
    code = form.format(location=opened, key=key, directory=elsewhere)
    if "os.environ" not in code:
        code = code.removeprefix("import os\n\n")
    return code.replace(f"store({key!r})", "store()") if key == DEFAULT_KEY else code


def _report(made: Made, *, has_goal: bool) -> str:
    memories = output.counted(made.memories, "memory")
    if made.took_over:
        lines = [f"Took over the plain files at {made.at}: the memory store {made.store} has {memories}."]
    elif made.is_new:
        lines = [f"Created the memory store {made.store} at {made.at}, with {memories}."]
    else:
        lines = [f"The memory store {made.store} exists at {made.at}, with {memories}."]
    if made.made:
        lines += ["Created the record of a project:", *(f"  {path}" for path in made.made)]
        lines += [] if has_goal else [f"Write the goal of the project into {made.made[0]}."]
    lines += ["", "To work on it:" if made.made else "To use it:", ""]
    return "\n".join([*lines, *(f"    {line}".rstrip() for line in made.code.splitlines()), ""])
