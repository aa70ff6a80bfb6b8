"""JSON documents of frameworks, stored as memories: paths, conversion, listing and search."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from retentive import aio
from retentive.engine.lists import ListedMemory
from retentive.errors import Conflict, Damaged, InvalidInput, Refused
from retentive.search.analysis import normal
from retentive.search.index import index_of
from retentive.search.query import Query, check_text
from retentive.search.ranking import search_index
from retentive.search.results import Document
from retentive.storage.backoff import LOCK_TIMEOUT_S, pauses
from retentive.storage.contract import Memory
from retentive.store import MemoryStore
from retentive.values.paths import MAX_SEGMENT_BYTES, ROOT, MemoryPath

T = TypeVar("T")
_PAGE: Final = 100  # maximum page size of a retentive server
_BATCH: Final = 100  # maximum number of commands in a batch
_SEPARATORS: Final = re.compile(r"[~/\\]")
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_ -]")
_ESCAPES: Final = re.compile(r"(?:~[0-9A-F]{2})+")
_SURROGATES: Final = re.compile(r"[\ud800-\udfff]")


def segment(kind: str, name: str, suffix: str = "") -> str:
    """Convert a name from a framework to one segment of a path; `segment_name` converts it back.

    What a segment cannot hold is written as `~` and two hexadecimal digits for each byte, as `%` does in URLs: the
    parser of paths decodes `%` itself. Two names never share a segment. `kind` describes the name in error messages.
    Raises `InvalidInput` for an empty name without a suffix, and for a name that is too long.
    """
    if not isinstance(name, str):
        raise InvalidInput(f"{kind} must be a string, not {type(name).__name__}")
    for special in (_SEPARATORS, _UNUSUAL):
        found = special.sub(_escaped, name) + suffix
        if found and _is_held(found):
            return found
    raise InvalidInput(
        f"{kind} must have 1 to {MAX_SEGMENT_BYTES - len(suffix)} bytes in UTF-8, where a slash and other characters "
        "that a file name cannot hold count three times"
    )


def segment_name(found: str, suffix: str = "") -> str:
    """Return the name from which `segment` made `found`. A segment that it cannot make is returned unchanged."""
    name = found.removesuffix(suffix)
    try:
        return _ESCAPES.sub(lambda each: bytes.fromhex(each[0].replace("~", "")).decode("utf-8", "surrogatepass"), name)
    except UnicodeDecodeError:
        return name


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"~{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def _is_held(found: str) -> bool:
    try:
        return MemoryPath.parse(f"{ROOT}/{found}").text == f"{ROOT}/{found}"
    except Refused:
        return False


def json_text(value: object) -> str:
    """Serialize a value as JSON. Raises `InvalidInput` if parsing the JSON would not return an equal value.

    A lone surrogate (half an emoji, from a stream that was cut) becomes an escape, because a memory is valid UTF-8.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
        is_equal = json.loads(text) == value
    except (TypeError, ValueError, RecursionError):
        is_equal = False
    if not is_equal:
        raise InvalidInput(
            "the value must be JSON: strings, finite numbers, true, false, null, lists, and dicts with string keys"
        )
    return _SURROGATES.sub(lambda each: f"\\u{ord(each[0]):04x}", text)


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
    documents = [
        Document(memory.path, text.encode("utf-8", "replace"), memory.updated_at, memory.id) for memory, text in texts
    ]
    found = search_index(index_of(documents, store.settings().search_languages), Query(normal(query)))
    return [(hit.path, hit.score) for hit in found.hits if hit.lines]


def in_batches(store: MemoryStore, commands: list[dict[str, str]]) -> None:
    """Run any number of commands, each hundred as one change."""
    for start in range(0, len(commands), _BATCH):
        store.batch(commands[start : start + _BATCH])


def until_no_conflict(work: Callable[[], T]) -> T:
    """Run `work`, and run it again if it raises `Conflict`. `work` must read the memories and write with `if_version`.

    Between the attempts are random pauses, so that a writer among many gets its turn. After 30 seconds, `Conflict` is
    raised.
    """
    waits = pauses(0.001, 0.02, deadline=time.monotonic() + LOCK_TIMEOUT_S)
    while True:
        try:
            return work()
        except Conflict:
            if next(waits, None) is None:
                raise


async def settled(work: Callable[[], T]) -> T:
    """Run `work` in a worker thread. If the caller is cancelled, first wait until `work` has ended."""
    task = asyncio.ensure_future(aio.in_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        task.exception()  # asyncio logs an exception that was not retrieved
        raise
