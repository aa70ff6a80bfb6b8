"""Backups, restores and migrations carry API keys, groups and webhook endpoints of a location."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive import Retentive
from retentive.errors import Locked, NotFound
from retentive.server.keys import KeyStore
from retentive.server.people import Groups
from retentive.server.webhooks import PENDING, Endpoint, Webhooks
from retentive.storage.sealed.keys import KeyRing, add_key
from retentive.transfer.archive import open_archive
from retentive.transfer.copies import RECORD_KINDS
from retentive.transfer.export import back_up
from retentive.transfer.location_records import CARRIED, CARRIED_BESIDE, TransferResult
from retentive.transfer.restore import migrate, restore
from retentive.wire.people import GroupCreation
from support.command_line import here
from support.places import KEYS

WORKSPACE = "wrkspc_default"
URL = "https://hooks.example/é"
NOT_CARRIED = frozenset(
    ("connected_client", "console.audit", "console.scan", "console_session", "leader", "maintenance", "oauth_secret",
    "dream", "person", "tidying", "webhook_dead", "webhook_done", "webhook_mark")
)  # fmt: skip
"""The other kinds of records of a location. Every new kind must be here or in `CARRIED`."""
ROOT = Path(retentive.__file__).parent


def populated(opened: Retentive) -> tuple[str, Endpoint]:
    """Give a location a memory, two keys, a group, a webhook endpoint with a pending delivery, and a session."""
    opened.store().create("/memories/a.md", "x")
    keys = KeyStore(opened.records)
    made = keys.create("ci", scopes=("read",), principal="user:ann")
    keys.change(keys.create("old").record.id, status="archived")
    assert keys.authenticated(made.text) is not None  # records its use
    hooks = Webhooks(opened)
    endpoint = hooks.create(WORKSPACE, URL, ["memory_store.created"])
    hooks.queue(endpoint, "memory_store.created", endpoint.created_at, "memstore_1")
    team = GroupCreation.read({"name": "team", "members": ["user:ann"], "grants": [{"role": "write"}]})
    Groups(opened.records).create(WORKSPACE, team, by="user:bo", integration="cli")
    opened.records.put("console_session", "s", '{"key": "k"}')
    return made.text, hooks.endpoints()[0]


def restored(file: Path, target: Retentive, **options: object) -> TransferResult:
    with open_archive(str(file)) as archive:
        return restore(archive, target.backend, **options)  # type: ignore[arg-type]


@pytest.fixture(params=["plain", "sealed"])
def source(request: pytest.FixtureRequest) -> Iterator[Retentive]:
    with retentive.open("sqlite://", keys=KEYS if request.param == "sealed" else None) as opened:
        yield opened


def is_sealed(opened: Retentive) -> bool:
    return opened.get_store("default").seal is not None


@pytest.mark.parametrize("way", ["backup", "migration"])
def test_records_are_carried(source: Retentive, way: str, tmp_path: Path) -> None:
    """A client's key still works. Secrets of webhooks are in encrypted backups and migrations; else a new one is made.

    The endpoint can be changed afterwards. Sessions are not carried.
    """
    text, endpoint = populated(source)
    kept = is_sealed(source) or way == "migration"
    with retentive.open("sqlite://", keys=KEYS if is_sealed(source) else None) as target:
        if way == "migration":
            done = migrate(source.backend, target.backend)
        else:
            written = back_up(source.backend, str(tmp_path / "b.tar"))
            done = restored(tmp_path / "b.tar", target)
            assert written.location.records == done.location.records
        assert done.location.records == {"api_key": 2, "group": 1, "webhook_endpoint": 1}
        keys, before = KeyStore(target.records), KeyStore(source.records)
        assert (keys.all(), keys.last_uses()) == (before.all(), before.last_uses())
        assert keys.authenticated(text) is not None
        assert keys.first() is None  # a new server makes no admin key
        hooks = Webhooks(target)
        (copy,) = hooks.endpoints()
        assert (copy.secret == endpoint.secret) == kept
        assert [each.signing_secret for each in done.location.secrets] == ([] if kept else [copy.secret])
        assert copy.model_copy(update={"secret": endpoint.secret}) == endpoint
        assert hooks.change(copy.id, name="new").name == "new"
        assert [each.webhook_endpoint_id for each in hooks.deliveries(PENDING)] == [copy.id]
        assert target.records.list("group") == source.records.list("group")
        assert target.records.list("console_session") == []
        assert list(target.records.audit.export()) == list(source.records.audit.export()) != []
        assert target.records.audit.verify().is_sound
    if way == "backup":
        data = (tmp_path / "b.tar").read_bytes()
        assert not [word for word in (endpoint.secret, text, "console_session") if word.encode() in data]


@pytest.mark.parametrize("options", [{"with_location": False}, {"stores": ["default"]}])
def test_records_can_be_left_out(source: Retentive, options: dict[str, object], tmp_path: Path) -> None:
    """Without keys, and for chosen stores, by each of the three."""
    populated(source)
    for number, way in enumerate(("backup", "restore", "migrate")):
        with retentive.open("sqlite://", keys=KEYS if is_sealed(source) else None) as target:
            file = tmp_path / f"{number}.tar"
            if way == "migrate":
                done = migrate(source.backend, target.backend, **options)  # type: ignore[arg-type]
            else:
                back_up(source.backend, str(file), **(options if way == "backup" else {}))  # type: ignore[arg-type]
                done = restored(file, target, **(options if way == "restore" else {}))
            assert [copy.key for copy in done.stores] == ["default"]
            assert (done.location.records, KeyStore(target.records).all()) == ({}, [])
            if way == "backup":
                assert b"api_key/" not in file.read_bytes()


def test_the_hidden_store_cannot_be_named(source: Retentive, tmp_path: Path) -> None:
    populated(source)
    with pytest.raises(NotFound):
        back_up(source.backend, str(tmp_path / "b.tar"), stores=["memstore_system"])


def test_a_restore_keeps_what_the_location_has(tmp_path: Path) -> None:
    """A key that was revoked since the backup stays revoked. The key that a new server made at its start stays too."""
    with retentive.open(f"sqlite:///{tmp_path}/m.db") as source, retentive.open("sqlite://") as target:
        text, endpoint = populated(source)
        back_up(source.backend, str(tmp_path / "b.tar"))
        first = KeyStore(target.records).first()
        done = restored(tmp_path / "b.tar", target).location
        keys = KeyStore(target.records)
        assert "audit" in done.kept
        assert target.records.audit.verify().is_sound
        assert len(keys.all()) == 3
        assert first is not None
        assert keys.authenticated(first.text) is not None
        keys = KeyStore(source.records)
        found = keys.authenticated(text)
        assert found is not None
        keys.change(found.id, status="archived")
        carried = restored(tmp_path / "b.tar", source).location
        assert {name.partition("/")[0] for name in carried.kept} == {"api_key", "webhook_endpoint"}
        assert KeyStore(source.records).authenticated(text) is None
        assert Webhooks(source).endpoints() == [endpoint]


def test_records_encrypted_in_another_way_are_refused(source: Retentive, tmp_path: Path) -> None:
    """A server was started at the target before the restore, so its records have a data key of their own."""
    populated(source)
    back_up(source.backend, str(tmp_path / "b.tar"))
    with retentive.open("sqlite://", keys=KEYS) as target:
        KeyStore(target.records).create("first", scopes=("admin",))
        with pytest.raises(Locked):
            restored(tmp_path / "b.tar", target)
        assert target.stores() == []  # nothing was written
        assert [copy.key for copy in restored(tmp_path / "b.tar", target, with_location=False).stores] == ["default"]


@pytest.mark.parametrize(("from_keys", "to_keys"), [(True, True), (True, False), (False, False), (False, True)])
def test_a_migration_copies_later_changes(from_keys: bool, to_keys: bool, tmp_path: Path) -> None:
    """What was changed or removed in the target since stays so. Source and target are encrypted or not."""
    with (
        retentive.open(f"sqlite:///{tmp_path}/a.db", keys=KEYS if from_keys else None) as source,
        retentive.open(f"sqlite:///{tmp_path}/b.db", keys=KeyRing.new() if to_keys else None) as target,
    ):
        _, endpoint = populated(source)
        migrate(source.backend, target.backend)
        ours, theirs = KeyStore(source.records), KeyStore(target.records)
        first, second = (ours.create(name).record.id for name in ("one", "two"))
        migrate(source.backend, target.backend)
        ours.change(first, status="archived")
        theirs.change(second, status="archived")
        ours.change(second, name="changed here too")
        (group,) = Groups(source.records).all(WORKSPACE)
        Groups(source.records).delete(group.id, WORKSPACE, by="user:bo", integration="cli")
        Webhooks(target).delete(endpoint.id)
        kept = migrate(source.backend, target.backend).location.kept
        assert kept == ["audit", f"api_key/{second.removeprefix('apikey_')}"]
        assert {key.status for key in theirs.all() if key.id in {first, second}} == {"archived"}
        assert target.records.list("group") == []
        assert Webhooks(target).endpoints() == []


def test_a_migration_of_encrypted_records_needs_both_keys(tmp_path: Path) -> None:
    with (
        retentive.open(f"sqlite:///{tmp_path}/a.db", keys=KEYS) as source,
        retentive.open("sqlite://", keys=KEYS) as target,
        retentive.open(f"sqlite:///{tmp_path}/a.db") as raw,
        retentive.open("sqlite://") as plain,
    ):
        populated(source)
        KeyStore(plain.records).create("own")
        for goal in (target, plain):
            with pytest.raises(Locked):
                migrate(raw.backend, goal.backend)
            assert goal.stores() == []


def test_the_command_line_names_what_was_carried(tmp_path: Path) -> None:
    """New secrets are printed once, by the restore. The ids of the keys that encrypted stores need are printed."""
    at, file = f"sqlite:///{tmp_path}/m.db", str(tmp_path / "b.tar.zst")
    with retentive.open(at) as opened:
        _, endpoint = populated(opened)
    said = here(at, "admin", "backup", file).stdout
    assert "Location: 2 API keys, 1 group, 1 webhook endpoint\n" in said
    result = here(f"sqlite:///{tmp_path}/new.db", "--json", "admin", "restore-backup", file)
    (secret,) = json.loads(result.stdout)["location"]["secrets"]
    assert (secret["webhook_endpoint_id"], secret["url"]) == (endpoint.id, URL)
    again = here(f"sqlite:///{tmp_path}/new.db", "admin", "restore-backup", file).stdout
    assert f"Kept as it is there: webhook_endpoint {endpoint.id}\n" in again
    assert "whsec_" not in again
    assert "Location" not in here(at, "admin", "backup", "--without-keys", str(tmp_path / "c.tar")).stdout


def test_two_locations_can_be_migrated_to_one(tmp_path: Path) -> None:
    """The records of the first are not taken for removed ones of the second."""
    with retentive.open("sqlite://") as target:
        for name in ("a", "b", "a"):
            with retentive.open(f"sqlite:///{tmp_path}/{name}.db") as source:
                if not KeyStore(source.records).all():
                    KeyStore(source.records).create(name)
                migrate(source.backend, target.backend)
        assert sorted(key.name for key in KeyStore(target.records).all()) == ["a", "b"]


def test_every_kind_of_a_record_is_known() -> None:
    """A new kind of `LocationRecords.put` must be added to `transfer/location_records.py`."""
    assert "place" in RECORD_KINDS
    assert set(written()) <= CARRIED.keys() | CARRIED_BESIDE | NOT_CARRIED


def written() -> Iterator[str]:
    """Yield the kinds of location records that the server and the console write."""
    for folder in ("server", "console", "store"):
        for path in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            module = __import__(".".join(["retentive", *path.relative_to(ROOT).with_suffix("").parts]), fromlist=["x"])
            for call in ast.walk(tree):
                if (
                    isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Attribute)
                    and call.func.attr in {"put", "change"}
                ):
                    owner = call.func.value
                    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
                    if name.lstrip("_") == "records" and isinstance(call.args[0], ast.Constant | ast.Name):
                        kind = call.args[0]
                        found = kind.value if isinstance(kind, ast.Constant) else getattr(module, kind.id, None)
                        if isinstance(found, str):
                            yield found


def test_a_drill_restores_nothing_and_finds_damage(tmp_path: Path) -> None:
    """It needs no location, prints no secrets, and needs the keys of encrypted stores."""
    at, file, key_file = f"sqlite:///{tmp_path}/m.db", str(tmp_path / "b.tar"), str(tmp_path / "k.json")
    add_key(key_file)
    with retentive.open(at) as opened:
        populated(opened)
        opened.store().change_settings({"audit": True})
        back_up(opened.backend, file)
    result = here(f"sqlite:///{tmp_path}/none.db", "admin", "drill", file)
    assert (result.exit_code, "whsec_" in result.output) == (0, False)
    assert {line.split("\t")[0] for line in result.stdout.splitlines()} == {"ok"}
    with retentive.open(at) as opened:
        core = opened.store()._core
        core.backend.write(core.id, lambda tx: tx.put_record("audit", "000000000001", "wrong"))
        back_up(opened.backend, str(tmp_path / "wrong.tar"))
    wrong = here(at, "admin", "drill", str(tmp_path / "wrong.tar"))
    assert (wrong.exit_code, "audit_wrong" in wrong.stdout) == (17, True)
    with retentive.open(f"sqlite:///{tmp_path}/s.db", keys=key_file) as opened:
        populated(opened)
        back_up(opened.backend, str(tmp_path / "s.tar"))
    assert here(at, "admin", "drill", str(tmp_path / "s.tar")).exit_code == 15
    assert here(at, "admin", "drill", "--keys", key_file, str(tmp_path / "s.tar")).exit_code == 0
    assert not (tmp_path / "none.db").exists()
