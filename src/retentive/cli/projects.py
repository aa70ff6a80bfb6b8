"""`init`: a memory store that is ready to be used, empty or with the record of a project."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import click

from retentive.agent.projects import DIRECTORY, Feature, start_project
from retentive.cli import output
from retentive.cli.location import Place, pass_place
from retentive.errors import NotFound
from retentive.locations import find_store, is_there
from retentive.opening import DEFAULT_KEY
from retentive.store import MemoryStore
from retentive.values.replies import Reply

NAMES = ("progress.md", "features.json", "setup.md")
_NO_GOAL = "not written yet; say here what the project is for"
_FEATURE = re.compile(r"(?P<id>[\w.-]+):\s+(?P<text>\S.*)", re.DOTALL)
_PROJECT_CODE = """\
import os

import retentive
from retentive.agent import Agent, close_session, open_session

with retentive.open({place}) as place:
    memory = place.store({key!r})
    with Agent(memory=memory) as agent:
        print(agent.ask(open_session(memory{directory})))
    close_session(memory, done="...", next="..."{directory})
"""
_EMPTY_CODE = """\
import os

import retentive

store = retentive.open({place}).store({key!r})
"""


@dataclass(frozen=True, slots=True)
class Made:
    """What `init` did: where, in which store, whether that is new, which memories, and how code goes on from there."""

    place: str
    store: str
    is_new: bool
    memories: int
    paths: tuple[str, ...]
    code: str
    has_goal: bool = True


@click.command(cls=output.Command)
@click.option("--pattern", type=click.Choice(["project"]), help="What to put into it: the record of a project.")
@click.option("--goal", metavar="TEXT", help="What the project is for; without it, a line to fill in.")
@click.option(
    "--feature",
    "features",
    metavar='"ID: TEXT"',
    multiple=True,
    help="Something it is to be able to do; may be given often. Without an id: f1, f2, ...",
)
@click.option("--setup", metavar="COMMAND", help="How the project is started and tried.")
@click.option("--directory", metavar="PATH", help=f"Where the record lies.  [default: {DIRECTORY}]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_place
def init(
    place: Place,
    *,
    pattern: str | None,
    goal: str | None,
    features: tuple[str, ...],
    setup: str | None,
    directory: str | None,
    as_json: bool,
) -> None:
    """Make the place and the memory store, and say where; what is there already stays as it is.

    With --pattern project also the record of work over many sessions, three memories in /memories/project: what is
    done and what comes next, the features with whether they pass, and how to start. If there is one already, nothing
    is done, and the status is 4.
    """
    given = {"--goal": goal, "--feature": features or None, "--setup": setup, "--directory": directory}
    if pattern is None and (alone := [name for name, value in given.items() if value is not None]):
        raise click.UsageError(f"{alone[0]} goes with --pattern project.")
    if goal is not None and not goal.strip():
        raise click.UsageError("--goal says what the project is for.")
    is_new = not _is_there(place)
    with place.made() as store:
        if pattern is None:
            made = _made(place, store, is_new=is_new)
        else:
            where = (directory or DIRECTORY).rstrip("/")
            _refuse_second(store, where, as_json=as_json)
            listed = [_feature(number, text) for number, text in enumerate(features, 1)]
            start_project(store, goal=goal or _NO_GOAL, features=listed, setup=setup or "", directory=where)
            made = replace(_made(place, store, is_new=is_new, directory=where), has_goal=goal is not None)
    _say(made, as_json=as_json)


def _is_there(place: Place) -> bool:
    if not is_there(place.at):
        return False
    with place.opened() as found:
        return find_store(found.backend, place.key) is not None


def _refuse_second(store: MemoryStore, directory: str, *, as_json: bool) -> None:
    try:
        store.load(f"{directory}/{NAMES[0]}")
    except NotFound:
        return
    text = f"Error: there is a project in {directory} already; open_session goes on with it, and nothing was done"
    output.end(Reply(text, is_error=True, code="already_exists"), as_json=as_json)


def _feature(number: int, given: str) -> Feature:
    found = _FEATURE.fullmatch(given.strip())
    return Feature(found["id"], found["text"]) if found else Feature(f"f{number}", given.strip())


def _made(place: Place, store: MemoryStore, *, is_new: bool, directory: str | None = None) -> Made:
    key, memories = store.key or place.key, store.usage().memories
    paths = () if directory is None else tuple(f"{directory}/{name}" for name in NAMES)
    form = _EMPTY_CODE if directory is None else _PROJECT_CODE
    elsewhere = "" if directory in {None, DIRECTORY} else f", directory={directory!r}"
    spelt = repr(place.at) if _shown(place.at) == place.at else 'os.environ["RETENTIVE_AT"]'
    spelt += f", keys={place.keys!r}" if place.keys is not None else ""
    code = form.format(place=spelt, key=key, directory=elsewhere)
    if "os.environ" not in code:
        code = code.removeprefix("import os\n\n")
    if key == DEFAULT_KEY:
        code = code.replace(f"store({key!r})", "store()")
    return Made(_shown(place.at), key, is_new, memories, paths, code)


def _shown(at: str) -> str:
    """The place as it may be shown: a URL without what could be a password."""
    scheme, separator, _ = at.partition("://")
    if not separator or scheme == "sqlite":
        return at
    parts = urlsplit(at)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _say(made: Made, *, as_json: bool) -> None:
    begun = f"Made the memory store {made.store}" if made.is_new else f"The memory store {made.store} was there"
    lines = [f"{begun}, at {made.place}; memories in it: {made.memories}."]
    if made.paths:
        lines += ["Made the record of a project:", *(f"  {path}" for path in made.paths)]
        lines += [] if made.has_goal else [f"Write what the project is for into {made.paths[0]}."]
        lines += ["", "To work on it:"]
    else:
        lines += ["", "To use it:"]
    value = {"at": made.place, "store": made.store, "is_new": made.is_new, "memories": made.memories}
    output.emit(
        value | {"made": list(made.paths), "code": made.code},
        as_json=as_json,
        plain="\n".join([*lines, "", *(f"    {line}".rstrip() for line in made.code.splitlines()), ""]),
    )
