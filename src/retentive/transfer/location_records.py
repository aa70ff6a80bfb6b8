"""Carries records of a location to a backup, or to another location: API keys, groups, webhooks and its audit log.

Sessions of the console, OAuth tokens and codes, and what a server derives or logs are never carried.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from retentive.audit.chain import ENTRY, HEAD, digest
from retentive.errors import Damaged, Locked
from retentive.storage import capabilities
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend, Snapshot, Transaction
from retentive.store.change_marks import ENDPOINT, new_webhook_secret
from retentive.store.location_records import RECORD
from retentive.transfer.copies import MARK, UNTIL, Copy, is_raw, kek_in, read_records
from retentive.transfer.lines import Header, Record
from retentive.values.records import SYSTEM_STORE

if TYPE_CHECKING:
    from retentive.opening import Keys

CARRIED = {
    "api_key": "API key",
    "api_key_used": None,
    "group": "group",
    "webhook_endpoint": "webhook endpoint",
    "webhook_pending": None,
    "webhook_seen": None,
}
"""Kinds of records that are carried. The value names a kind whose records are counted for a person.

The others are sessions, tokens, what is known for a while, and what was done; a test lists them.
"""
_NAMED = {"audit", *(kind for kind, name in CARRIED.items() if name is not None)}
_LOG = (ENTRY, HEAD)


@dataclass(frozen=True, slots=True)
class NewSecret:
    """New signing secret of a webhook endpoint whose secret was not in a backup."""

    webhook_endpoint_id: str
    url: str
    signing_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedRecords:
    """Records of a location that were carried.

    `records` has their number by kind. `kept` has the names of records that the target has with other values, and that
    stayed as they are there. `encryption_key` is the id of the key-encryption key of the records if they are encrypted.
    """

    records: Mapping[str, int] = field(default_factory=dict)
    kept: Sequence[str] = ()
    secrets: Sequence[NewSecret] = ()
    encryption_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferResult:
    """Result of a backup, a restore or a migration."""

    stores: Sequence[Copy]
    location: CarriedRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """Records to write to `target`. `seal` is that of their source if the values are encrypted."""

    target: Backend
    seal: str | None
    records: Sequence[Record]


def for_backup(record: Record, *, raw: bool) -> Record | None:
    """Return a record as it belongs in a backup, or None if it does not. `raw` says that its value is encrypted.

    A backup that is not encrypted has no secrets of webhook endpoints.
    """
    if not _is_carried(record):
        return None
    if raw or _kind_of(record) != ENDPOINT:
        return record
    return replace(record, value=_json(_object(record.value) | {"secret": "", "old_secret": None}))


def counted_records(records: Iterable[Record], copy: Copy | None) -> CarriedRecords:
    """Return the result of a backup with these records. `copy` describes their hidden memory store."""
    counts = Counter(kind for record in records if CARRIED.get(kind := _kind_of(record)))
    return CarriedRecords(records=dict(counts), encryption_key=None if copy is None else copy.encryption_key)


def from_backup(
    header: Header, records: Iterable[Record], target: Backend, keys: Callable[[], Keys | None] | None
) -> Outgoing:
    """Return the records of a backup as they can be written to a location.

    `keys` returns the keys of the target. They are needed only if the target has records that are encrypted in another
    way than those of the backup. Raises `Locked` without them.
    """
    target, chosen = below_encryption(target), list(filter(_is_carried, records))
    present = target.get_store(SYSTEM_STORE)
    if present is None or present.seal == header.seal:
        return Outgoing(target=target, seal=header.seal, records=chosen)
    given = None if keys is None else keys()
    if given is None:
        raise _locked("open the location with keys, or leave out the records of the location")
    from retentive.storage.sealed.backend import SealedBackend  # noqa: PLC0415 - imports cryptography
    from retentive.storage.sealed.codec import StoreKeys, StoreSeal  # noqa: PLC0415 - imports cryptography
    from retentive.storage.sealed.keys import as_wrapper  # noqa: PLC0415 - imports cryptography

    wrapper = as_wrapper(given)
    if header.seal is not None:
        opened = StoreKeys(StoreSeal.parse(header.seal).data_key(SYSTEM_STORE, wrapper), SYSTEM_STORE)
        values = (opened.open_value(record.value, "record", record.kind, record.key) for record in chosen)
        chosen = [replace(record, value=value or "") for record, value in zip(chosen, values, strict=True)]
    return Outgoing(
        target=target if present.seal is None else SealedBackend(target, wrapper), seal=None, records=chosen
    )


def from_location(source: Backend, target: Backend) -> Outgoing | None:
    """Return the records of a location as they can be written to another one, or None if it has none.

    Raises `Locked` or `InvalidInput` if the keys with which the two were opened do not allow it.
    """
    info = source.get_store(SYSTEM_STORE)
    if info is None:
        return None
    raw, present = is_raw(source, info), target.get_store(SYSTEM_STORE)
    if not raw:
        capabilities.unlock(source, info)
    is_plain = below_encryption(target) is target
    if (raw and not is_plain) or (is_plain and present is not None and present.seal != (info.seal if raw else None)):
        raise _locked("pass the keys of both locations, or leave out the records of the location")
    records = list(filter(_is_carried, source.read(SYSTEM_STORE, lambda snapshot: list(read_records(snapshot)))))
    return Outgoing(target=target, seal=info.seal if raw else None, records=records)


def carry(outgoing: Outgoing | None, *, again: bool = False) -> CarriedRecords:
    """Write the records to their target, in one transaction. A record that the target has stays as it is there.

    So does an audit log of the location that is not the beginning of the log that is carried.

    With `again`, the records are copied as often as this is called: what was changed or removed in the source since the
    last time is changed or removed in the target, unless it was changed or removed there too.
    """
    if outgoing is None or not (outgoing.records or again):
        return CarriedRecords()
    target, seal = outgoing.target, outgoing.seal
    info = target.create_store(key=None, name="system", store_id=SYSTEM_STORE, seal=seal)
    done = target.write(SYSTEM_STORE, partial(_write, outgoing=outgoing, again=again))
    return replace(done, encryption_key=kek_in(info.seal))


def _write(tx: Transaction, *, outgoing: Outgoing, again: bool) -> CarriedRecords:
    known, written, kept, secrets = _carried_before(tx) if again else {}, Counter[str](), list[str](), list[NewSecret]()
    now = {record.key: record.value for record in outgoing.records if record.kind == RECORD}
    if not _log_is_carried(tx, outgoing.records):
        kept.append("audit")
    for name, value in [*now.items(), *((name, None) for name in known if name not in now)]:
        present = tx.get_record(RECORD, name)
        if present == value:
            written[_kind(name)] += value is not None
        elif (None if present is None else digest(present)) != known.get(name):
            kept += [] if present is None else [name]
        else:
            stored = value
            if _kind(name) == ENDPOINT and value is not None and outgoing.seal is None:
                stored = _with_secret(value, secrets)
            tx.put_record(RECORD, name, stored)
            written[_kind(name)] += value is not None
    if again:
        tx.put_record(MARK, UNTIL, json.dumps({name: digest(value) for name, value in now.items()}))
    counted = {kind: number for kind, number in written.items() if number and CARRIED.get(kind)}
    return CarriedRecords(records=counted, kept=[name for name in kept if _kind(name) in _NAMED], secrets=secrets)


def _log_is_carried(tx: Transaction, records: Sequence[Record]) -> bool:
    """Write the audit log of a location. Return False if the target has another log, which stays."""
    log = {(record.kind, record.key): record.value for record in records if record.kind in _LOG}
    present = {(ENTRY, key): value for key, value in tx.records(ENTRY)}
    if present.items() <= log.items():
        for place, value in log.items():
            tx.put_record(*place, value)
        return True
    return all(present.get(place) == value for place, value in log.items() if place[0] == ENTRY)


def _carried_before(tx: Snapshot) -> dict[str, str]:
    """Return digests of the records that the last migration carried, by name."""
    try:
        return dict(json.loads(tx.get_record(MARK, UNTIL) or "{}"))
    except (Damaged, ValueError, TypeError):  # an earlier run wrote it without keys, or somebody else did
        return {}


def _with_secret(value: str, made: list[NewSecret]) -> str:
    """Give a webhook endpoint a new secret if it has none, and add the secret to `made`."""
    endpoint = _object(value)
    if not endpoint.get("secret"):
        endpoint |= {"secret": new_webhook_secret(), "rotated_at": None}
        made.append(NewSecret(str(endpoint.get("id")), str(endpoint.get("url")), endpoint["secret"]))
    return _json(endpoint)


def _object(value: str) -> dict[str, Any]:
    try:
        return dict(json.loads(value))
    except (ValueError, TypeError):
        raise Damaged("the record of a webhook endpoint cannot be read") from None


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)  # the form that the server compares with


def _kind(name: str) -> str:
    return name.partition("/")[0]


def _kind_of(record: Record) -> str:
    return _kind(record.key) if record.kind == RECORD else ""


def _is_carried(record: Record) -> bool:
    return record.kind in _LOG or _kind_of(record) in CARRIED


def _locked(advice: str) -> Locked:
    what = "the target has API keys and other records of a location, which are encrypted in another way than these"
    return Locked(f"{what}; {advice}")
