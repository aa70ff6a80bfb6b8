"""JSON documents of frameworks, stored as memories: paths, conversion, listing and search."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from retentive.engine.listings import ListedMemory
from retentive.errors import Conflict, Damaged, InvalidInput, Refused
from retentive.search.analysis import normal
from retentive.search.index import scanned
from retentive.search.query import Query, check_text
from retentive.search.results import Document
from retentive.storage.contract import Actor, Memory
from retentive.store import MemoryStore
from retentive.values.paths import ROOT, MemoryPath

T = TypeVar("T")
_PAGE: Final = 100  # maximum page size of a retentive server
_ATTEMPTS: Final = 50  # a conflict means that another writer succeeded, so only very many writers use up all attempts


def segment(kind: str, name: str, suffix: str = "") -> str:
    """Convert a name from a framework to one segment of a path. `kind` describes the name in error messages.

    Raises `InvalidInput` if a path cannot contain the name unchanged, because two names must never share a path.
    """
    if not isinstance(name, str):
        raise InvalidInput(f"{kind} must be a string, not {type(name).__name__}")
    given = name + suffix
    try:
        is_held = "/" not in given and MemoryPath.parse(f"{ROOT}/{given}").text == f"{ROOT}/{given}"
    except Refused:
        is_held = False
    if not given or not is_held:
        raise InvalidInput(
            f"{kind} must be usable as a file name: 1 to {255 - len(suffix)} bytes in Unicode NFC, not . or .., "
            "without slashes, backslashes or invisible characters"
        )
    return given


def json_text(value: object, *, indent: int | None = 2) -> str:
    """Serialize a value as JSON. Raises `InvalidInput` if parsing the JSON would not return an equal value."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
        is_equal = json.loads(text) == value
    except (TypeError, ValueError, RecursionError):
        is_equal = False
    if not is_equal:
        raise InvalidInput(
            "the value must be JSON: strings, finite numbers, true, false, null, lists, and dicts with string keys"
        )
    return text


def json_object(path: str, text: str) -> dict[str, Any]:
    """Parse the JSON object in a memory. Raises `Damaged` if the text is not a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Damaged(
            f"{path} does not contain a JSON object; restore an earlier version of the memory, or delete the memory"
        )
    return value


def memories_below(store: MemoryStore, under: str) -> Iterator[tuple[Memory, str]]:
    """Yield the memories below a directory with their texts, sorted by path.

    All memories are in the state that the store had when the first memory was read.
    """
    page = store.list_memories(under, limit=_PAGE, texts=True)
    while True:
        for each in page.items:
            if isinstance(each, ListedMemory):
                yield each.memory, each.text or ""
        if page.next is None:
            return
        page = store.list_memories(under, cursor=page.next, limit=_PAGE, texts=True)


def strings_in(value: object) -> Iterator[str]:
    """Yield all strings in a JSON value, except the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from strings_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings_in(each)


def ranked(store: MemoryStore, query: str, texts: Iterable[tuple[Memory, str]]) -> list[tuple[str, float]]:
    """Return the paths and scores of the texts that contain any word of the query, best first.

    Operators in the query have no effect. As `texts`, pass the strings of a document instead of its JSON. In JSON,
    escapes would be parts of words. Raises `InvalidInput`.
    """
    check_text(query)
    documents = [Document(memory.path, text.encode(), memory.updated_at, memory.id) for memory, text in texts]
    found = scanned(documents, Query(normal(query)), None, store.settings().search_languages)
    return [(hit.path, hit.score) for hit in found.hits if hit.lines]


def until_no_conflict(work: Callable[[], T]) -> T:
    """Run `work`, and run it again if it raises `Conflict`. `work` must read the memories and write with `if_version`.

    After 50 attempts, `Conflict` is raised.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return work()
        except Conflict:
            continue
    return work()


async def settled(work: Callable[[], T]) -> T:
    """Run `work` in a worker thread. If the caller is cancelled, first wait until `work` has ended."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        task.exception()  # asyncio logs an exception that was not retrieved
        raise


def acting(store: MemoryStore, integration: str, actor: Actor | str | None) -> MemoryStore:
    """Return a view of the store. Its changes are by `actor` (if given), and its audit entries name `integration`."""
    found = store.through(integration)
    return found if actor is None else found.acting_as(actor)
