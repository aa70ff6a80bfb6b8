"""A tool by which a model finds memories by words: `memory_search`, an ordinary function beside the memory tool.

    tool = search_tool(store)
    client.chat.completions.create(..., tools=[{"type": "function", "function": tool.definition}])
    reply = tool.reply(call.function.arguments)

For the official SDK there is `retentive.MemorySearchTool`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from retentive.engine.rendering import Say, error_reply
from retentive.errors import InvalidInput, Refused, RetentiveError
from retentive.search.query import Hit, Results
from retentive.values.paths import ROOT, MemoryPath, visible
from retentive.values.replies import Replies, Reply


class Searches(Protocol):
    """What the tool needs of a memory: a `MemoryStore`, or several of them as one tree."""

    @property
    def replies(self) -> Replies:
        """The sentences of its errors."""

    def redacted(self, text: str) -> str:
        """A text of the input as a reply may echo it."""

    def search(
        self,
        query: str,
        *,
        under: str = ROOT,
        paths: Sequence[str] = (),
        regex: bool = False,
        limit: int | None = 20,
    ) -> Results:
        """The memories that match."""


NAME: Final = "memory_search"
LIMIT, MAX_LIMIT = 10, 20  # memories; 20 with three lines of 200 characters are about a page of a view

DESCRIPTION: Final = """\
Finds text files below /memories by words in their text or path, when you do not know where to look. Answers with the \
files that hold all the words, those changed last first, each with the lines that match best; view a file to read it. \
Words are found anywhere, also inside others, whatever their case: part of a word finds more. "words in quotes" are \
found as they stand in one line, and -word leaves out the files that hold it. Only words count, not meaning: if \
nothing is found, try others."""

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_QUERY = "a string, the words to look for"
_PATH = "a string, /memories or a path below it"
_LIMIT = f"an integer from 1 to {MAX_LIMIT}"

INPUT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": 'The words to look for, as in: refund "30 days" -draft'},
        "path": {"type": "string", "description": "Entry only in this directory or file. Starts with /memories."},
        "limit": {
            "type": "integer",
            "description": f"At most so many files, 1 to {MAX_LIMIT}; {LIMIT} if not given.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class SearchTool:
    """The search as a function: its definition for a request, and what runs its calls. Threads may share it."""

    memory: Searches
    name: str
    description: str
    parameters: Mapping[str, Any]

    @property
    def definition(self) -> dict[str, Any]:
        """`name`, `description` and `parameters`: the form most clients take."""
        return {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}

    def reply(self, arguments: Mapping[str, Any] | str) -> Reply:
        """The reply to a call, with `is_error`. Never raises for what a model sent, be it JSON or not."""
        given: object = arguments
        if isinstance(arguments, str):
            try:
                given = json.loads(arguments)
            except (ValueError, RecursionError):
                given = arguments
        return search_reply(self.memory, given)

    def call(self, arguments: Mapping[str, Any] | str) -> str:
        """The text of `reply`, for clients that have no place for an error mark; errors say that they are."""
        return self.reply(arguments).text


def search_tool(memory: Searches, *, name: str = NAME) -> SearchTool:
    """The search of a memory as a function tool, for models and clients of all kinds."""
    return SearchTool(memory, name, DESCRIPTION, INPUT_SCHEMA)


def search_reply(memory: Searches, given: object) -> Reply:
    """The reply to a search, given as the raw input of a tool call.

    Never raises for what a model sent or storage did. What is not found is no error.
    """

    try:
        query, under, limit = _parsed(given)
        return Reply(_text(memory.search(query, under=under.text, limit=limit), under))
    except InvalidInput as error:
        return Reply(f"Error: Invalid `query` parameter: {error}", is_error=True, code=error.code)
    except RetentiveError as error:
        return error_reply(Say(memory.replies, memory.redacted), error, (MemoryPath.known(ROOT),))


def _parsed(given: object) -> tuple[str, MemoryPath, int]:
    """Words, where to look, and how many memories to show. Raises `Refused`."""
    if not isinstance(given, Mapping):
        raise Refused("missing_field", field="query", command=NAME, expected=_QUERY)
    query, limit = given.get("query"), given.get("limit")
    if query is None:
        raise Refused("missing_field", field="query", command=NAME, expected=_QUERY)
    if not isinstance(query, str):
        raise _bad("query", query, _QUERY)
    if isinstance(limit, str) and _INTEGER.fullmatch(limit):
        limit = int(limit)
    if limit is None:
        limit = LIMIT
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise _bad("limit", limit, _LIMIT)
    path = given.get("path")
    if path is not None and not isinstance(path, str):
        raise _bad("path", path, _PATH)
    return query, MemoryPath.parse(path or ROOT), min(limit, MAX_LIMIT)


def _bad(field: str, given: object, expected: str) -> Refused:
    try:
        shown = json.dumps(given, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        shown = "something else"
    return Refused("bad_field", field=field, value=visible(shown[:200]), expected=expected)


def _text(found: Results, under: MemoryPath) -> str:
    """How many there are, and for each its path and its best lines."""
    where = "" if under.is_root else f" below {under.text}"
    if not found.total:
        return (
            f"0 memories{where} hold all of these words. Try fewer or other words, or only a part of a word; "
            f"`view` {under.text} shows what there is."
        )
    lines = [f"{len(found.hits)} of {found.total} memories{where}, those changed last first:"]
    for hit in found.hits:
        lines += ["", *_lines(hit)]
    if len(found.hits) < found.total:
        more = "" if len(found.hits) >= MAX_LIMIT else ", or a higher `limit`"
        lines += ["", f"[{found.total - len(found.hits)} more. To see them give more words, or a `path`{more}.]"]
    return "\n".join(lines)


def _lines(hit: Hit) -> list[str]:
    if not hit.snippets:
        return [f"{hit.path} (only its path matches)"]
    rest = hit.lines - len(hit.snippets)
    more = [f"[{rest} more lines match]" if rest > 1 else "[1 more line matches]"] if rest else []
    return [hit.path, *(f"{snippet.line}: {snippet.text}" for snippet in hit.snippets), *more]
