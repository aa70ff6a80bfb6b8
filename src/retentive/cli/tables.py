"""Tables for people, by rich; imported only when standard output is a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from retentive.storage.contract import Memory, StoreInfo
from retentive.values.listing import human_size


def memories(found: Sequence[Memory]) -> str:
    """Size, time of the last change and path of each memory."""
    table = _table("size", "changed", "path")
    for memory in found:
        when = f"{memory.updated_at.astimezone():%Y-%m-%d %H:%M}"
        _add(table, human_size(memory.size_bytes), when, memory.path)
    return _drawn(table)


def stores(found: Sequence[StoreInfo]) -> str:
    """What is known of each memory store."""
    table = _table("size", "memories", "created", "key", "name", "id")
    for store in found:
        when = f"{store.created_at.astimezone():%Y-%m-%d %H:%M}"
        _add(table, human_size(store.size_bytes), str(store.memories), when, store.key or "", store.name, store.id)
    return _drawn(table)


def plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Any rows of text."""
    table = _table(*columns)
    for row in rows:
        _add(table, *row)
    return _drawn(table)


_STYLES = {"size": "green", "memories": "green", "changed": "blue", "created": "blue"}
"""Only colours, so that nothing is left of them under NO_COLOR."""


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="yellow")
    for name in columns:
        number = name in {"size", "memories"}
        table.add_column(name, style=_STYLES.get(name), justify="right" if number else "left", overflow="fold")
    return table


def _add(table: Table, *cells: str) -> None:
    table.add_row(*[Text(cell) for cell in cells])  # as Text, or rich would read `[red]` in a name as its markup


def _drawn(table: Table) -> str:
    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get().removesuffix("\n")
