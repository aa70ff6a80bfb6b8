"""Function tool `memory_search`, with which models run a full-text search of the memories.

    tool = search_tool(store)
    client.responses.create(..., tools=[{"type": "function", **tool.definition}])
    reply = tool.reply(call.arguments)

With the official SDK, use `retentive.MemorySearchTool` instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from retentive.engine.citations import STALE
from retentive.engine.rendering import error_reply
from retentive.errors import InvalidInput, Refused, RetentiveError
from retentive.integrations.function_tool import FunctionTool
from retentive.integrations.memory import MemoryLocation, open_memory
from retentive.integrations.schemas import MAX_SEARCH_LIMIT, SEARCH, SEARCH_DESCRIPTION, SEARCH_LIMIT, SEARCH_SCHEMA
from retentive.mounts import Mounts
from retentive.search.results import Hit, Results, age
from retentive.storage.contract import Actor, as_actor
from retentive.store import MemoryStore, core_of
from retentive.values.commands import integer_of
from retentive.values.paths import ROOT, MemoryPath, visible, visible_path
from retentive.values.replies import Reply

MAX_REPLY_CHARS = 8_000
_QUERY = "a string, a question or words to look for"
_PATH = "a string, /memories or a path below it"
_RESERVE = 400  # characters that are kept free for the lines after the results
_MOST_NAMED = 10  # maximum unknown words in a reply
_MOST_DAMAGED = 3
_NAMED_CHARS = 50
_LIMIT = f"an integer from 1 to {MAX_SEARCH_LIMIT}"


def search_tool(
    memory: MemoryLocation | MemoryStore | Mounts,
    *,
    store: str | None = None,
    name: str = SEARCH,
    actor: Actor | str | None = None,
) -> FunctionTool:
    """Create a tool that searches `memory`. It works with any model and client. Raises `InvalidInput`.

    `memory` is a `MemoryStore`, `Mounts`, or a location (a directory, a URL or an opened location). For a location,
    `store` selects a memory store by its key or id. Memories that are hidden from `actor` are not found.
    """
    who = as_actor(actor)
    found, _ = open_memory(memory, store)
    through = found.through("search_tool")

    def run(request: object, **_: object) -> Reply:  # a repeated search needs no id: it runs again
        return search_reply(through, request, actor=who)

    return FunctionTool(name, SEARCH_DESCRIPTION, SEARCH_SCHEMA, run)


def search_reply(memory: MemoryStore | Mounts, request: object, *, actor: Actor | None = None) -> Reply:
    """Run a search. `request` is the raw input of a tool call.

    Invalid input and storage failures get an error reply. A search without matches is not an error.
    """
    core = core_of(memory)
    try:
        query, under, limit = _parse(request)
    except Refused as refusal:
        return core.refused("search", refusal, actor=actor)
    try:
        found = memory.search(query, under=under.text, limit=limit, actor=actor)
        return Reply(_text(found, under, datetime.now(UTC)))
    except InvalidInput as error:
        where = "Invalid `query` parameter: " if error.code == InvalidInput.code else ""
        return Reply(f"Error: {where}{error}", is_error=True, code=error.code)
    except RetentiveError as error:
        return error_reply(core, error)


def _parse(request: object) -> tuple[str, MemoryPath, int]:
    """Return the query, the path to search, and the limit. Raises `Refused`."""
    fields = request if isinstance(request, Mapping) else {}
    query, limit = fields.get("query"), fields.get("limit")
    if query is None:
        raise Refused("missing_field", field="query", command=SEARCH, expected=_QUERY)
    if not isinstance(query, str):
        raise bad_field("query", query, _QUERY)
    try:
        most = SEARCH_LIMIT if limit is None else integer_of(limit)
    except TypeError:
        most = 0
    if most < 1:
        raise bad_field("limit", limit, _LIMIT)
    path = fields.get("path")
    if path is not None and not isinstance(path, str):
        raise bad_field("path", path, _PATH)
    return query, MemoryPath.parse(path or ROOT), min(most, MAX_SEARCH_LIMIT)


def bad_field(field: str, value: object, expected: str) -> Refused:
    """Return the `Refused` error for an invalid value in a field of a tool call."""
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        shown = "something else"
    return Refused("bad_field", field=field, value=visible(shown[:200]), expected=expected)


def _text(results: Results, under: MemoryPath, now: datetime) -> str:
    where = "" if under.is_root else f" below {under.text}"
    notes = list(_notes(results))
    if not results.total:
        none = f"0 memories{where} match. Try other words; `view` {under.text} lists the memories."
        return "\n".join([none, *notes])
    lines = [f"{{shown}} of {results.total} memories{where}, best first:"]
    if results.relaxed:
        lines.append("[No memory contains the whole phrase; these contain words of it.]")
    next_path = visible_path(results.hits[0].path) if results.hits else ""
    room = MAX_REPLY_CHARS - sum(map(len, [*lines, *notes, next_path])) - _RESERVE
    shown = 0
    for hit in results.hits:
        block = ["", *_lines(hit, now)]
        room -= sum(len(line) + 1 for line in block)
        if room < 0:
            break
        lines += block
        shown += 1
    lines[0] = lines[0].replace("{shown}", str(shown), 1)
    return "\n".join([*lines, *_next(results, shown), *notes])


def _next(results: Results, shown: int) -> list[str]:
    """Lines that suggest viewing a memory, and explain how to see the other results."""
    lines = []
    first = results.hits[0] if shown else None
    if first is not None and first.snippets:
        line = first.snippets[0].line
        window = f"[{max(line - 5, 1)}, {line + 15}]"
        lines.append(f"[Next: view {visible_path(first.path)} with view_range {window}, or without it.]")
    if rest := results.total - shown:
        more = "" if shown >= MAX_SEARCH_LIMIT else ", or a higher `limit`"
        lines.append(f"[{rest} more. To see them, use more exact words, or a `path`{more}.]")
    return ["", *lines] if lines else []


def _notes(results: Results) -> Iterator[str]:
    """Lines about words of the query that occur in no memory, and about damaged memories."""
    said = [visible(word[:_NAMED_CHARS]) for word in results.unknown[:_MOST_NAMED]]
    if said:
        rest = len(results.unknown) - len(said)
        more = f" and {_plural(rest, 'more word')}" if rest else ""
        yield f"[In no memory: {', '.join(said)}{more}]"
    named = results.damaged[:_MOST_DAMAGED]
    yield from (f"[The memory {visible_path(path)} is damaged and was not searched.]" for path in named)
    if rest := len(results.damaged) - len(named):
        yield f"[{rest} more memories are damaged.]" if rest > 1 else "[1 more memory is damaged.]"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''}"


def _lines(hit: Hit, now: datetime) -> list[str]:
    by = f" by {hit.actor}" if hit.actor else ""
    trust = "" if hit.trust == "trusted" else f"{hit.trust}; "
    trust += f"{hit.freshness}; " if hit.freshness in STALE else ""
    about = f"{visible_path(hit.path)} ({trust}score {hit.score:.2f}, changed {age(hit.updated_at, now)}{by})"
    if not hit.snippets:
        return [f"{about}: only its path matches"]
    rows: list[str] = [about]
    above: tuple[str, ...] = ()
    for snippet in hit.snippets:
        if snippet.headings != above and snippet.headings:
            rows.append(f"[{' > '.join(snippet.headings)}]")
        above = snippet.headings
        rows.append(f"{snippet.line}: {snippet.text}")
    rest = hit.lines - len(hit.snippets)
    return [*rows, *([f"[{_plural(rest, 'more line')} match{'es' if rest == 1 else ''}]"] if rest else [])]
