"""Function tool `memory_search`: full-text search of the memories for models.

    tool = search_tool(store)
    client.chat.completions.create(..., tools=[{"type": "function", "function": tool.definition}])
    reply = tool.reply(call.function.arguments)

For the official SDK use `retentive.MemorySearchTool`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from retentive.engine.rendering import Say, error_reply
from retentive.errors import InvalidInput, Refused, RetentiveError
from retentive.integrations.function_tool import FunctionTool
from retentive.integrations.memory import Place, open_memory
from retentive.integrations.named import named
from retentive.mounts import Mounts, core_of_tree
from retentive.search.query import Hit, Results
from retentive.storage.contract import Actor, as_actor
from retentive.store import MemoryStore
from retentive.values.paths import ROOT, MemoryPath, visible
from retentive.values.replies import Reply

NAME: Final = "memory_search"
LIMIT, MAX_LIMIT = 10, 20  # memories; 20 with three lines of 200 characters each fill about one page of a view

DESCRIPTION: Final = """\
Finds text files below /memories by words in their text or path, when you do not know where to look. Returns the \
files that contain all the words, last changed first, each with the best matching lines; view a file to read it. \
Matching ignores case and also finds words inside longer words, so part of a word finds more. "words in quotes" must \
occur exactly like that in one line, and -word excludes files that contain it. Matching is literal, not by meaning: \
if nothing is found, try other words."""

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_QUERY = "a string, the words to look for"
_PATH = "a string, /memories or a path below it"
_LIMIT = f"an integer from 1 to {MAX_LIMIT}"

INPUT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": 'The words to look for, as in: refund "30 days" -draft'},
        "path": {"type": "string", "description": "Search only this directory or file. Starts with /memories."},
        "limit": {
            "type": "integer",
            "description": f"Maximum number of files, 1 to {MAX_LIMIT}; the default is {LIMIT}.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}


def search_tool(
    memory: Place | MemoryStore | Mounts,
    *,
    store: str | None = None,
    name: str = NAME,
    actor: Actor | str | None = None,
) -> FunctionTool:
    """Create a search tool for a memory, usable with any model and client. Memories hidden from `actor` stay hidden.

    `memory` is a memory store, mounts, or a location (opened or not); `store` is then the key or id of a memory store
    in it. Raises `InvalidInput`.
    """
    who = as_actor(actor)
    found, _ = open_memory(memory, store, method="search")
    run = partial(search_reply, named(found, "search_tool"), actor=who)
    return FunctionTool(name, DESCRIPTION, INPUT_SCHEMA, run)


def search_reply(memory: MemoryStore | Mounts, request: object, *, actor: Actor | None = None) -> Reply:
    """Run a search, given as the raw input of a tool call.

    Invalid input and storage failures get an error reply. A search without matches is not an error.
    """
    core = core_of_tree(memory)
    try:
        query, under, limit = _parse(request)
    except Refused as refusal:
        return core.refused("search", refusal, actor=actor)
    try:
        return Reply(_text(memory.search(query, under=under.text, limit=limit, actor=actor), under))
    except InvalidInput as error:
        where = "Invalid `query` parameter: " if error.code == InvalidInput.code else ""
        return Reply(f"Error: {where}{error}", is_error=True, code=error.code)
    except RetentiveError as error:
        return error_reply(Say(core.replies, core.redacted), error, (MemoryPath.known(ROOT),))


def _parse(request: object) -> tuple[str, MemoryPath, int]:
    """Return the query, the path to search, and the limit. Raises `Refused`."""
    fields = request if isinstance(request, Mapping) else {}
    query, limit = fields.get("query"), fields.get("limit")
    if query is None:
        raise Refused("missing_field", field="query", command=NAME, expected=_QUERY)
    if not isinstance(query, str):
        raise _bad_field("query", query, _QUERY)
    if limit is None:
        limit = LIMIT
    if isinstance(limit, str) and _INTEGER.fullmatch(limit):
        limit = int(limit)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise _bad_field("limit", limit, _LIMIT)
    path = fields.get("path")
    if path is not None and not isinstance(path, str):
        raise _bad_field("path", path, _PATH)
    return query, MemoryPath.parse(path or ROOT), min(limit, MAX_LIMIT)


def _bad_field(field: str, value: object, expected: str) -> Refused:
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        shown = "something else"
    return Refused("bad_field", field=field, value=visible(shown[:200]), expected=expected)


def _text(results: Results, under: MemoryPath) -> str:
    """Format the results: the number of matches, then the path and the best lines of each memory."""
    where = "" if under.is_root else f" below {under.text}"
    damaged = [f"[The memory {visible(path)} is damaged and was not searched.]" for path in results.damaged]
    if not results.total:
        none = (
            f"0 memories{where} contain all of these words. Try fewer or other words, or only part of a word; "
            f"`view` {under.text} lists the memories."
        )
        return "\n".join([none, *damaged])
    lines = [f"{len(results.hits)} of {results.total} memories{where}, last changed first:"]
    for hit in results.hits:
        lines += ["", *_lines(hit)]
    if len(results.hits) < results.total:
        more = "" if len(results.hits) >= MAX_LIMIT else ", or a higher `limit`"
        lines += ["", f"[{results.total - len(results.hits)} more. To see them, use more words, or a `path`{more}.]"]
    return "\n".join([*lines, *damaged])


def _lines(hit: Hit) -> list[str]:
    path = hit.path if hit.trust == "trusted" else f"{hit.path} ({hit.trust})"
    if not hit.snippets:
        return [f"{path} (only its path matches)"]
    rest = hit.lines - len(hit.snippets)
    more = [f"[{rest} more lines match]" if rest > 1 else "[1 more line matches]"] if rest else []
    return [path, *(f"{snippet.line}: {snippet.text}" for snippet in hit.snippets), *more]
