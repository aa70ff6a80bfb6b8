"""Ciphertext decrypts only in its own context."""

from __future__ import annotations

import base64
import hashlib
import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.errors import Damaged, InvalidInput, Locked, RetentiveError, UnknownSchema
from retentive.storage.sealed.codec import SEAL_HEADER, TEXT_HEADER, StoreKeys, StoreSeal, Unsealed
from retentive.storage.sealed.keys import KeyRing
from retentive.values.paths import ROOT

STORE, OTHER = "memstore_1", "memstore_2"
KEYS = StoreKeys(b"k" * 32, STORE)
OTHER_KEYS = (
    StoreKeys(b"o" * 32, STORE),
    StoreKeys(b"k" * 32, OTHER),
    StoreKeys(b"o" * 32, OTHER),
)
IDS = st.from_regex(r"mem(ver)?_[0-9a-f]{1,32}", fullmatch=True)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=60)
PATHS = st.lists(NAMES, min_size=1, max_size=20).map(lambda names: "/".join([ROOT, *names]))
TEXTS = st.one_of(st.binary(max_size=300), st.integers(0, 100_000).map(lambda size: b"x" * size))


def said_of(data: bytes, version: str) -> Unsealed:
    return Unsealed(hashlib.sha256(data).hexdigest(), len(data), version)


NOTES = st.none() | st.text(st.characters(codec="utf-8"))


@given(TEXTS, IDS, PATHS, NOTES)
def test_encrypted_texts_and_seals_are_decrypted(data: bytes, version: str, path: str, note: str | None) -> None:
    said = said_of(data, version)._replace(provenance=note)
    text, seal = KEYS.stored(version, data), KEYS.seal(said, "mem_1", version, path)
    assert (text.startswith(TEXT_HEADER), seal.startswith(SEAL_HEADER)) == (True, True)
    assert KEYS.open_seal(seal, "mem_1", version, path) == said
    assert KEYS.open_text(text, said) == data


@given(st.text(st.characters(codec="utf-8")))
def test_a_value_is_decrypted_with_its_own_names_only(value: str) -> None:
    sealed = KEYS.seal_value(value, "record", "kind", "key")
    assert KEYS.open_value(sealed, "record", "kind", "key") == value
    for names in (("record", "kind", "other"), ("settings",), ("record", "kind")):
        with pytest.raises(Damaged):
            KEYS.open_value(sealed, *names)
    for wrong in ("", "plain text", "é", str(sealed)[:-4], value):
        with pytest.raises(Damaged):
            KEYS.open_value(wrong, "record", "kind", "key")


@given(TEXTS, st.data())
def test_a_text_or_seal_with_any_byte_changed_or_cut_is_damaged(data: bytes, draw: st.DataObject) -> None:
    said = said_of(data, "memver_1")
    for wrong in mutations(KEYS.stored("memver_1", data), draw):
        with pytest.raises(Damaged):
            KEYS.open_text(wrong, said)
    for wrong in mutations(KEYS.seal(said, "mem_1", "memver_1", "/memories/a"), draw):
        with pytest.raises(Damaged):
            KEYS.open_seal(wrong, "mem_1", "memver_1", "/memories/a")


@given(st.tuples(IDS, IDS, PATHS), st.tuples(IDS, IDS, PATHS))
def test_a_seal_opens_for_its_own_row_only(row: tuple[str, str, str], other_row: tuple[str, str, str]) -> None:
    """Decryption fails if a field of the row, the key or the store is another one."""
    memory, version, path = row
    version2 = other_row[1]
    seal = KEYS.seal(said_of(b"one", version), memory, version, path)
    said = KEYS.open_seal(seal, memory, version, path)
    for swapped in set(product(*zip(row, other_row, strict=True))) - {row}:
        with pytest.raises(Damaged):
            KEYS.open_seal(seal, *swapped)
    for other in OTHER_KEYS:
        with pytest.raises(Damaged):
            other.open_seal(seal, memory, version, path)
        with pytest.raises(Damaged):
            other.open_text(KEYS.stored(version, b"one"), said)
    if version != version2:
        with pytest.raises(Damaged):
            KEYS.open_text(KEYS.stored(version2, b"one"), said)


def test_row_fields_are_delimited() -> None:
    """A NUL in an id does not make two different rows encode to the same bytes."""
    seal = KEYS.seal(said_of(b"one", "v"), "m", "v", "/memories/a")
    for row in (("m\0v", "/memories/a", ""), ("", "m\0v", "/memories/a"), ("m", "v\0/memories/a", "")):
        with pytest.raises(Damaged):
            KEYS.open_seal(seal, *row)


@given(st.binary(min_size=32, max_size=32), st.data())
def test_a_store_seal_opens_with_its_keys_only(data_key: bytes, draw: st.DataObject) -> None:
    ring = KeyRing("a", {"a": b"a" * 32})
    made = StoreSeal().holding(data_key, STORE, ring)
    again = StoreSeal.parse(made.to_text())
    assert again == made
    assert again.data_key(STORE, ring) == data_key
    with pytest.raises(Locked):
        again.data_key(OTHER, ring)
    for key_id, key in (("a", b"b" * 32), ("b", b"a" * 32)):
        with pytest.raises(Locked):
            again.data_key(STORE, KeyRing(key_id, {key_id: key}))
    assert made.key is not None
    for wrong in mutations(base64.b64decode(made.key), draw):
        with pytest.raises(Locked):
            StoreSeal(made.kek, base64.b64encode(wrong).decode()).data_key(STORE, ring)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"format": 2}', UnknownSchema),
        ('{"format": 1}', Damaged),
        ('{"format": 1, "kek": "a", "key": "AAAA", "paths": true}', Damaged),
        ('{"format": "1", "kek": "a", "key": "AAAA"}', Damaged),
        ('{"format": 1, "key": "AAAA"}', Damaged),
        ('{"format": 1, "kek": "a"}', Damaged),
        ('{"format": 1, "kek": "a", "key": "*"}', Damaged),
        ('{"format": 1, "kek": 7, "key": "AAAA"}', Damaged),
        ("[" * 100_000, Damaged),
    ],
)
def test_store_seals_of_other_forms_are_refused(text: str, error: type[RetentiveError]) -> None:
    with pytest.raises(error):
        StoreSeal.parse(text)


def test_keys_are_in_no_representation() -> None:
    """Programs may log the representation of a key object."""
    secret = b"s3cret-s3cret-s3cret-s3cret-s3cr"
    shown = repr(KeyRing("a", {"a": secret}))
    assert "s3cret" not in shown


def test_a_ring_has_its_current_key_and_keys_of_32_bytes() -> None:
    """AES would take 16 bytes, too."""
    for current, key in (("b", b"k" * 32), ("a", b"k" * 16), ("a", b"k" * 33)):
        with pytest.raises(InvalidInput, match="32 bytes"):
            KeyRing(current, {"a": key})
        written = {"current": current, "keys": {"a": base64.b64encode(key).decode()}}
        with pytest.raises(InvalidInput, match="32 bytes"):
            KeyRing.from_text(json.dumps(written))


def mutations(data: bytes, draw: st.DataObject) -> list[bytes]:
    """Return mutations of the bytes: one byte changed, the end removed, bytes appended, and all bytes removed."""
    at = draw.draw(st.integers(0, len(data) - 1), label="at")
    flip = draw.draw(st.integers(1, 255), label="flip")
    return [data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :], data[:at], data + bytes([flip]), b""]
