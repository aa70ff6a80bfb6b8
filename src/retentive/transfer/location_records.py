"""Carries records of a location to a backup, or to another location: API keys, groups, webhooks and its audit log.

Sessions of the console, OAuth tokens and codes, and what a server derives or logs are never carried.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from retentive.audit.chain import ENTRY, HEAD
from retentive.errors import Damaged, Locked
from retentive.storage import capabilities
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend, Transaction
from retentive.store.change_marks import ENDPOINT, new_webhook_secret
from retentive.store.location_records import RECORD
from retentive.transfer.copies import MARK, Copy, is_raw, read_records
from retentive.transfer.lines import Record
from retentive.values.records import SYSTEM_STORE, to_us
from retentive.values.text import digest

CARRIED = {"api_key": "API key", "group": "group", ENDPOINT: "webhook endpoint"}
"""Kinds of records that are carried and counted, with their names for a person."""
CARRIED_BESIDE = frozenset(("api_key_used", "webhook_pending", "webhook_seen"))
"""Other kinds that are carried. The rest are sessions, tokens, what is known for a while, and what was done; a test
lists them."""
_LOG = (ENTRY, HEAD)


@dataclass(frozen=True, slots=True)
class NewSecret:
    """New signing secret of a webhook endpoint whose secret was not in a backup."""

    webhook_endpoint_id: str
    url: str
    signing_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedRecords:
    """Records of a location that were carried: their number by kind.

    `kept` has the names of records that the target has with other values, and that stayed as they are there.
    """

    records: Mapping[str, int] = field(default_factory=dict)
    kept: Sequence[str] = ()
    secrets: Sequence[NewSecret] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferResult:
    """Result of a backup, a restore or a migration."""

    stores: Sequence[Copy]
    location: CarriedRecords


def for_backup(record: Record, *, raw: bool) -> Record | None:
    """Return a record as it belongs in a backup, or None if it does not. `raw` says that its value is encrypted.

    A backup that is not encrypted has no secrets of webhook endpoints.
    """
    if not _is_carried(record):
        return None
    if raw or not (record.kind == RECORD and _kind(record.key) == ENDPOINT):
        return record
    return replace(record, value=_json(_object(record.value) | {"secret": "", "old_secret": None}))


def numbers_by_kind(names: Iterable[str]) -> dict[str, int]:
    """Return the number of records with these names, by kind."""
    return dict(Counter(kind for name in names if (kind := _kind(name)) in CARRIED))


def check_target(target: Backend, seal: str | None) -> None:
    """Raise `Locked` if a location has records that are encrypted in another way than those with `seal`."""
    present = below_encryption(target).get_store(SYSTEM_STORE)
    if present is not None and present.seal != seal:
        raise _locked("use a location that was not served yet")


def migrate_records(source: Backend, target: Backend) -> CarriedRecords:
    """Copy the records of a location to another one, in one transaction. May be repeated.

    What was changed or removed in the source since the last time is then changed or removed in the target, unless it
    was changed or removed there too. Call `check_migration` first.
    """
    info = source.get_store(SYSTEM_STORE)
    if info is None:
        return CarriedRecords()
    records = source.read(SYSTEM_STORE, lambda snapshot: list(read_records(snapshot)))
    seal = info.seal if is_raw(source, info) else None
    return carry(records, target, seal=seal, origin=str(to_us(info.created_at)))


def check_migration(source: Backend, target: Backend) -> None:
    """Raise `Locked` or `InvalidInput` if the keys with which two locations were opened do not allow a migration."""
    info = source.get_store(SYSTEM_STORE)
    if info is None:
        return
    raw, is_plain = is_raw(source, info), below_encryption(target) is target
    if not raw:
        capabilities.unlock(source, info)
    if raw and not is_plain:
        raise _locked("pass the keys of both locations")
    if is_plain:
        check_target(target, info.seal if raw else None)


def carry(records: Iterable[Record], target: Backend, *, seal: str | None, origin: str | None = None) -> CarriedRecords:
    """Write records to a location, in one transaction. A record that the target has stays as it is there.

    So does an audit log of the location that is not the beginning of the log that is carried. `seal` is that of the
    source if the values are encrypted. `origin` names the source of a migration.
    """
    chosen = list(filter(_is_carried, records))
    target.create_store(key=None, name="system", store_id=SYSTEM_STORE, seal=seal)
    return target.write(SYSTEM_STORE, lambda tx: _write(tx, chosen, origin, is_plain=seal is None))


def _write(tx: Transaction, records: Sequence[Record], origin: str | None, *, is_plain: bool) -> CarriedRecords:
    known = {} if origin is None else _object(tx.get_record(MARK, origin) or "{}")  # digests at the last migration
    now: dict[str, str | None] = {record.key: record.value for record in records if record.kind == RECORD}
    carried, kept, secrets = list[str](), list[str](), list[NewSecret]()
    if not _log_is_carried(tx, records):
        kept.append("audit")
    for name, value in (dict.fromkeys(known) | now).items():
        present = tx.get_record(RECORD, name)
        if present != value and (None if present is None else digest(present)) != known.get(name):
            kept += [] if present is None or _kind(name) not in CARRIED else [name]
            continue
        if present != value:
            is_new = is_plain and value is not None and _kind(name) == ENDPOINT
            tx.put_record(RECORD, name, _with_secret(value or "", secrets) if is_new else value)
        carried += [] if value is None else [name]
    if origin is not None:
        tx.put_record(MARK, origin, _json({name: digest(value or "") for name, value in now.items()}))
    return CarriedRecords(records=numbers_by_kind(carried), kept=kept, secrets=secrets)


def _log_is_carried(tx: Transaction, records: Sequence[Record]) -> bool:
    """Write the audit log of a location. Return False if the target has another log, which stays."""
    log = {record.key: record.value for record in records if record.kind == ENTRY}
    present = dict(tx.records(ENTRY))
    is_shorter = present.items() <= log.items()
    for record in records:
        if is_shorter and record.kind in _LOG:
            tx.put_record(record.kind, record.key, record.value)
    return is_shorter or log.items() <= present.items()


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
        raise Damaged("a record of the location cannot be read") from None


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _kind(name: str) -> str:
    return name.partition("/")[0]


def _is_carried(record: Record) -> bool:
    return record.kind in _LOG or (record.kind == RECORD and _kind(record.key) in {*CARRIED, *CARRIED_BESIDE})


def _locked(advice: str) -> Locked:
    what = "the target has API keys and other records of a location, which are encrypted in another way than these"
    return Locked(f"{what}; {advice}, or leave them out (--without-keys)")
