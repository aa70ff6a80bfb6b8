"""JSON documents of frameworks, each a memory: names, texts, listings, and a search of their strings."""

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
_PAGE: Final = 100  # the most that a server sends in one page
_ATTEMPTS: Final = 50  # a conflict means that another writer succeeded, so only many writers use them all


def segment(kind: str, name: str, suffix: str = "") -> str:
    """One segment of a path for a name that a framework chose. `kind` names it in errors.

    Raises `InvalidInput` for a name that a path cannot hold unchanged: two names must never be one path.
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
            "without slashes, backslashes and invisible characters"
        )
    return given


def json_text(value: object, *, indent: int | None = 2) -> str:
    """The value as JSON. Raises `InvalidInput` if reading it would not give an equal value."""
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
    """The JSON object in a memory. Raises `Damaged` for another text, which somebody else wrote."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Damaged(f"{path} is not a JSON object: restore an earlier version, or delete it")
    return value


def memories_below(store: MemoryStore, under: str) -> Iterator[tuple[Memory, str]]:
    """All memories below a directory with their texts, in byte order of their paths, as of the first page."""
    page = store.list_memories(under, limit=_PAGE, texts=True)
    while True:
        for each in page.items:
            if isinstance(each, ListedMemory):
                yield each.memory, each.text or ""
        if page.next is None:
            return
        page = store.list_memories(under, cursor=page.next, limit=_PAGE, texts=True)


def strings_in(value: object) -> Iterator[str]:
    """All texts in a JSON value, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from strings_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings_in(each)


def ranked(store: MemoryStore, query: str, texts: Iterable[tuple[Memory, str]]) -> list[tuple[str, float]]:
    """Paths and scores of the texts with any word of the query, best first. A query here has no operators.

    The texts are those in the documents: in JSON, an escape would be part of a word. Raises `InvalidInput`.
    """
    check_text(query)
    documents = [Document(memory.path, text.encode(), memory.updated_at, memory.id) for memory, text in texts]
    found = scanned(documents, Query(normal(query)), None, store.settings().search_languages)
    return [(hit.path, hit.score) for hit in found.hits if hit.lines]


def until_no_conflict(work: Callable[[], T]) -> T:
    """Run a function that reads and writes with `if_version` again until no other writer was in between."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return work()
        except Conflict:
            continue
    return work()


async def settled(work: Callable[[], T]) -> T:
    """Run a function that writes in a worker thread. A cancelled caller waits until it ends."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        task.exception()  # retrieved, or asyncio logs it
        raise


def acting(store: MemoryStore, integration: str, actor: Actor | str | None) -> MemoryStore:
    """The store with the integration in its audit log, and the actor if there is one."""
    found = store.through(integration)
    return found if actor is None else found.acting_as(actor)
