"""Long-term memory store for LangGraph and LangChain agents: `graph.compile(store=LangGraphStore(...))`.

A namespace is a directory, and an item is a memory `KEY.json` in it. People and models can therefore also read, search
and restore items as memories.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from retentive.values.extras import pip_install

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        validate_op_namespace,
    )
    from langgraph.store.memory import InMemoryStore
except ImportError as error:
    raise ImportError(f"LangGraphStore needs LangGraph: {pip_install('langgraph')}") from error

from retentive.errors import InvalidInput, NotFound
from retentive.integrations.documents import (
    in_batches,
    json_object,
    json_text,
    memories_below,
    ranked,
    segment,
    segment_name,
    settled,
    strings_in,
    until_no_conflict,
)
from retentive.integrations.memory import ActorLike, MemoryLocation, open_store
from retentive.storage.contract import Memory
from retentive.store import MemoryStore
from retentive.values.paths import ROOT

_SUFFIX = ".json"


class LangGraphStore(BaseStore):
    """LangGraph store that keeps its items as memories. Threads may share it.

    `memory` is a `MemoryStore` or a location (a directory, a URL or an opened location). For a location, `store`
    selects a memory store by its key or id. `actor` is recorded with each change. The writes of one `batch`, up to 100,
    are one atomic change; of more, each hundred is one. The reads of a batch return the state before its writes.

    The option `index` has no effect, as in LangGraph's stores without an index of vectors: search ranks all texts of an
    item by words. The option `ttl` raises `NotImplementedError`, because items do not expire. A slash and what else a
    file name cannot hold is escaped in the path. Keys and labels that are too long for a file name, and values that are
    not JSON, raise `InvalidInput`.
    """

    def __init__(
        self, memory: MemoryLocation | MemoryStore, *, store: str | None = None, actor: ActorLike = None
    ) -> None:
        self._store = open_store(memory, store, "langgraph", actor)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run all reads, then all writes: as one change, or each hundred of them as one."""
        given = list(ops)
        for op in given:
            _check(op)
        written = {_path(op.namespace, op.key): op for op in given if isinstance(op, PutOp)}  # the last one counts
        texts = {path: _text(op) for path, op in written.items()}
        results = [self._read(op) for op in given]
        if texts:
            until_no_conflict(lambda: self._write(texts))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run `batch` in a worker thread. If the caller is cancelled, still wait until the batch has ended."""
        given = list(ops)
        return await settled(lambda: self.batch(given))

    def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                try:
                    return _item(*self._store.load(_path(op.namespace, op.key)))
                except NotFound:
                    return None
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                return self._namespaces(op)
        return None

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.limit < 0 or op.offset < 0:
            raise InvalidInput("`limit` and `offset` must not be negative")
        below = memories_below(self._store, _directory(op.namespace_prefix))
        found = ((memory, _item(memory, text)) for memory, text in below if _is_item(memory.path))
        items: Iterator[tuple[Item, float | None]] = ((item, None) for _, item in found)
        if op.query:
            by_path = {memory.path: (memory, item) for memory, item in found}
            texts = [(memory, "\n".join(strings_in(item.value))) for memory, item in by_path.values()]
            items = ((by_path[path][1], score) for path, score in ranked(self._store, op.query, texts))
        if op.filter:
            items = (each for each in items if _has(op, each[0]))
        return [
            SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)
            for item, score in islice(items, op.offset, op.offset + op.limit)
        ]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        """Namespaces that contain items. LangGraph's own store applies the conditions of the operation to them."""
        found = dict.fromkeys(_names(each.path)[0] for each in self._store.memories() if _is_item(each.path))
        model = InMemoryStore()
        model.batch([PutOp(namespace, "", {}) for namespace in found])
        listed = model.batch([op])[0]
        assert isinstance(listed, list)
        return [each for each in listed if isinstance(each, tuple)]

    def _write(self, texts: dict[str, str | None]) -> None:
        commands: list[dict[str, str]] = []
        for path, text in texts.items():
            if text is not None:
                commands.append({"command": "write", "path": path, "file_text": text})
            elif version := self._version(path):
                commands.append({"command": "delete", "path": path, "if_version": version})
        in_batches(self._store, commands)

    def _version(self, path: str) -> str | None:
        """Return the id of the newest version of the item at `path`. None for a directory, or if nothing is there."""
        try:
            return self._store.load(path)[0].version_id
        except NotFound:
            return None


def _check(op: Op) -> None:
    """Make the checks that `BaseStore` makes only in its own methods, and reject options that would have no effect."""
    if not isinstance(op, GetOp | SearchOp | PutOp | ListNamespacesOp):
        raise InvalidInput(f"{type(op).__name__} is not an operation of a LangGraph store")
    validate_op_namespace(op)
    if isinstance(op, PutOp) and op.ttl is not None:
        raise NotImplementedError("`ttl` is not supported; omit it, or use the setting `expire_after_days`")


def _directory(namespace: tuple[str, ...]) -> str:
    return "/".join([ROOT, *(segment("a label of a namespace", label) for label in namespace)])


def _path(namespace: tuple[str, ...], key: str) -> str:
    return f"{_directory(namespace)}/{segment('a key', key, _SUFFIX)}"


def _text(op: PutOp) -> str | None:
    if op.value is not None and not isinstance(op.value, Mapping):
        raise InvalidInput(f"the value of an item must be a mapping, not {type(op.value).__name__}")
    return None if op.value is None else json_text(dict(op.value))


def _names(path: str) -> tuple[tuple[str, ...], str]:
    """Return the namespace and the key of an item."""
    *labels, name = path.removeprefix(ROOT + "/").split("/")
    return tuple(segment_name(label) for label in labels), segment_name(name, _SUFFIX)


def _is_item(path: str) -> bool:
    """Return whether a path belongs to an item: it is the path of its names, and no label in it has a period."""
    namespace, key = _names(path)
    return path.endswith(_SUFFIX) and not any("." in label for label in namespace) and _path(namespace, key) == path


def _item(memory: Memory, text: str) -> Item:
    namespace, key = _names(memory.path)
    return Item(
        value=json_object(memory.path, text),
        key=key,
        namespace=namespace,
        created_at=memory.created_at,
        updated_at=memory.updated_at,
    )


def _has(op: SearchOp, item: Item) -> bool:
    """Return True if the item matches the filter. The rules are those of LangGraph's own store.

    An item that lacks a field of the filter does not match.
    """
    model = InMemoryStore()
    model.batch([PutOp(item.namespace, item.key, item.value)])
    try:
        return bool(model.batch([SearchOp(op.namespace_prefix, op.filter)])[0])
    except TypeError:
        return False
    except ValueError as error:
        raise InvalidInput(f"the filter cannot be applied to the item {item.key!r}: {error}") from None
