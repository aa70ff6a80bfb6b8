"""`ls`, `cat`, `view` and `search`: read memories."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import click

from retentive.cli import output
from retentive.cli.changes import MEMORIES, end, memory_object, result
from retentive.cli.location import Location
from retentive.cli.options import command
from retentive.cli.output import Drawn, coloured, harmless, marked
from retentive.cli.parameters import (
    absolute,
    complete_paths,
    flag,
    line_range,
    named,
    option,
    path_argument,
    path_option,
    revision,
    revision_option,
    source_option,
    trust_option,
)
from retentive.engine.citations import STALE
from retentive.engine.lists import list_memories, load
from retentive.errors import NotFound
from retentive.history.revisions import Revision
from retentive.history.revisions import as_of as read_as_of
from retentive.remote import remote_store
from retentive.search.recall import LEAST_TOKENS
from retentive.search.results import Results, age
from retentive.storage.contract import Memory
from retentive.store import MemoryStore, core_of
from retentive.values.paths import ROOT

_as_of_option = revision_option(
    "--as-of", "Show the state at a time or right after a change: HEAD~2, r1234, yesterday, 2h."
)


@command(json=MEMORIES)
@path_argument("path", default=ROOT)
@flag("-l", "--long", "is_long", "Show the times of the last change and the ids too.")
@_as_of_option
def ls(location: Location, path: str, *, is_long: bool, as_of: Revision | None) -> None:
    """List all memories below PATH, with their sizes.

    In a pipe each line has the size in bytes and the path, separated by a tab.

    \b
    retentive ls team/ --format csv
    retentive ls -l --as-of yesterday
    """
    with location.existing() as store:
        path = named(store, path)
        found = _memories(store, path, as_of)
    rows = list(map(memory_object, found))
    long = {"changed": "updated_at", "memory": "memory_id", "version": "version_id"} if is_long else {}
    output.emit(rows, output.table(rows, {"size": "size_bytes", **long, "path": "path"}, "No memories."))


@command(json="Print a JSON object with the fields of `ls`, and the text.")
@click.argument("what", metavar="PATH", shell_complete=complete_paths)
@_as_of_option
def cat(location: Location, what: str, *, as_of: Revision | None) -> None:
    """Print the exact bytes of a memory. `REVISION:PATH` prints its text at an earlier time, as --as-of does.

    \b
    retentive cat notes.md --as-of 2h
    retentive cat HEAD~2:notes.md
    """
    moment, _, rest = what.partition(":")
    if as_of is None and rest and not what.startswith((".", "/")):
        with contextlib.suppress(click.BadParameter):
            as_of, what = revision(moment), rest
    with location.existing() as store:
        target, remote, core = named(store, absolute(what)), remote_store(store), core_of(store)
        if as_of is None:
            memory, text = store.load(target)
        elif remote is not None:
            memory, text = remote.load_at(target, as_of)
        else:
            memory, text = core.result_of(read_as_of(load(core.parsed(target)), as_of))
    if output.as_object():
        output.emit(memory_object(memory) | {"text": text})
    else:
        output.write(text.encode())


@command(json='Print one JSON object: {"text", "is_error", "code", "path"}.')
@path_argument("path", default=ROOT)
@option("--range", "view_range", "A:B", "Show only these lines of a memory: 10:20, 10: or 10.", callback=line_range)
def view(location: Location, path: str, *, view_range: tuple[int, int] | None) -> None:
    """Show a memory with line numbers, or list a directory.

    Prints exactly the reply that a model gets. A directory is listed two levels deep.
    """
    with location.existing() as store:
        path = named(store, path)
        end(result(store.execute({"command": "view", "path": path, "view_range": view_range}), path))


def _memories(store: MemoryStore, path: str, at: Revision | None) -> list[Memory]:
    """Return the memories at or below a path, in the state of the revision `at`, or in the current state."""
    core, remote = core_of(store), remote_store(store)
    target = core.parsed(path)
    if remote is None:
        listing = list_memories(target, or_at=True)
        found = core.result_of(listing if at is None else read_as_of(listing, at))
    elif at is not None:
        found = remote.memories_at(path, at)
    else:
        found = remote.memories(path)
        with contextlib.suppress(NotFound):
            found = found or ([] if target.is_root else [store.load(path)[0]])
    if not found and not target.is_root:
        raise NotFound(f"there {'is' if at is None else 'was'} no memory at or below {path}")
    return found


@command(json='Print a JSON object: {"total", "hits", "damaged", "unknown", "relaxed"}.')
@click.argument("query", nargs=-1, required=True)
@path_option("--under", metavar="DIR", default=ROOT, help="Search only below this directory.")
@option("--path", "paths", "PATTERN", "Search only matching paths, such as '/memories/*/notes.md'.", multiple=True)
@source_option
@trust_option
@flag("--all", "is_all", "Find memories that contain all words as written, newest first.")
@flag("--history", "Search all versions; show the first version with each text.")
@option("--as-of", "at", "REV", "Search the memories as of a revision or time, such as 2d.")
@flag("--regex", "QUERY is a regular expression (RE2), matched against each line.")
@option("-n", "--limit", "N", "Show the first N.", type=click.IntRange(min=0), default=20)
def search(location: Location, /, query: tuple[str, ...], *, limit: int, is_all: bool, **where: Any) -> None:
    """Find the memories that best match QUERY, which is a question or some words. Other forms of a word match too.

    '"some words"' is a phrase; +word must occur; -word must not occur (put -- before QUERY). path:TEXT, by:ACTOR,
    since:TIME, before:TIME and is:proposed limit the search. In a pipe each line has a path, line number and line,
    separated by tabs. If only the path of a memory matches, the number and the line are empty.

    \b
    retentive search refund policy
    retentive search --under team/ --regex 'ticket-[0-9]+'
    """
    with location.existing() as store:
        found = store.search(" ".join(query), limit=limit, mode="all" if is_all else "ranked", **where)
    is_cut = len(found.hits) < found.total
    output.emit(
        found,
        _hits(found),
        f"{output.counted(found.total, 'memory')}." if output.as_table() and not is_cut else "",
        rows="hits",
        notes=[
            *([f"{len(found.hits)} of {found.total} memories; -n shows more."] if is_cut else []),
            *(["No memory contains the whole phrase; these contain words of it."] if found.relaxed else []),
            *(f"No memory contains {word}." for word in found.unknown),
            *(f"The memory {path} is damaged and was not searched; run `retentive doctor`." for path in found.damaged),
        ],
    )


def _hits(found: Results) -> Drawn:
    """Return search results: each path with its matching lines below it, or a line for each of them in a pipe.

    A memory of which only the path matches has one line, without a number and a text.
    """
    if not output.as_table():
        rows = [
            [(hit.path, str(each.line), each.text) for each in hit.snippets] or [(hit.path, "", "")]
            for hit in found.hits
        ]
        return output.table(chain(*rows), ())
    lines, now = [], datetime.now(UTC)
    for hit in found.hits:
        stale = [hit.freshness] if hit.freshness in STALE else []
        about = ", ".join([age(hit.updated_at, now), *([hit.actor] if hit.actor else []), *stale])
        lines.append(f"{marked(hit.path, hit.path_spans, 'cyan')}  {coloured(harmless(about), 'bright_black')}")
        above: tuple[str, ...] = ()
        for snippet in hit.snippets:
            if snippet.headings and snippet.headings != above:
                lines.append(coloured(" " * 8 + harmless(" > ".join(snippet.headings)), "bright_black"))
            above = snippet.headings
            lines.append(f"{coloured(f'{snippet.line:6}', 'green')}  {marked(snippet.text, snippet.spans)}")
        if hit.lines > len(hit.snippets):
            lines.append(coloured(f"{hit.lines - len(hit.snippets)} more lines".rjust(8), "bright_black"))
    return Drawn("".join(f"{each}\n" for each in lines))


@command(json='Print a JSON object: {"passages", "text", "tokens"}.')
@click.argument("question", nargs=-1, required=True)
@path_option("--under", metavar="DIR", default=ROOT, help="Search only below this directory.")
@option(
    "--budget",
    "budget_tokens",
    "TOKENS",
    "Print at most these.",
    type=click.IntRange(min=LEAST_TOKENS),
    default=400,
    show_default=True,
)
def recall(location: Location, /, question: tuple[str, ...], **given: Any) -> None:
    """Print the best lines of the best memories for QUESTION, for a prompt, within a budget of (estimated) tokens.

    The output stays the same until one of its lines changes or goes, or a clearly better one comes.

    \b
    retentive recall --budget 200 how long do refunds take
    """
    with location.existing() as store:
        found = store.recall(" ".join(question), **given)
    output.emit(found, found.text, rows="passages", notes=() if found.text else ["No memory matches."])
