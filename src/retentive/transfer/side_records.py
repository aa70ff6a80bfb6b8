"""Copying of side records, which are kept beside a memory store and outside its transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from retentive.storage.contract import Backend
from retentive.transfer.kinds import SIDE_RECORD_KINDS


def read_side_records(backend: Backend, store_id: str) -> Iterator[tuple[str, str, str]]:
    """Kind, key and value of all side records of a store."""
    for kind in SIDE_RECORD_KINDS:
        for key, value in backend.side_records(store_id, kind):
            yield kind, key, value


def replace_side_records(values: Iterable[tuple[str, str, str]], target: Backend, store_id: str) -> None:
    """Make these the side records of a store: kinds, keys and values. Others are removed."""
    wanted: dict[str, dict[str, str | None]] = {kind: {} for kind in SIDE_RECORD_KINDS}
    for kind, key, value in values:
        wanted.setdefault(kind, {})[key] = value
    for kind, by_key in wanted.items():
        present = dict(target.side_records(store_id, kind))
        changed = {key: value for key, value in by_key.items() if present.get(key) != value}
        changed |= dict.fromkeys(present.keys() - by_key.keys())
        if changed:
            target.put_side_records(store_id, kind, changed)
