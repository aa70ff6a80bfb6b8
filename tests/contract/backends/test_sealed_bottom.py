"""The files of an encrypted store contain no plain text. The tests search every byte of every file."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.storage.sealed.backend import SealedBackend
from retentive.storage.sealed.keys import KeyRing
from retentive.storage.sealed.rotation import destroy, rotate
from support.places import place_of
from support.profiles import sized

KEYS = KeyRing.new()
SCALE = sized(quick=4, long=15, full=30)


class Markers:
    """Unique words, one for each place where a text or path can appear."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.paths: list[str] = []

    def text(self) -> str:
        self.texts.append(f"txt{os.urandom(8).hex()}")
        return self.texts[-1]

    def path(self) -> str:
        self.paths.append(f"pth{os.urandom(8).hex()}")
        return self.paths[-1]


def forms(word: str) -> Iterator[bytes]:
    """Yield the encodings of a word: plain, UTF-16, hexadecimal, and base64 at any offset."""
    data = word.encode()
    yield from (data, word.encode("utf-16-le"), word.encode("utf-16-be"))
    yield from (data.hex().encode(), data.hex().upper().encode())
    for offset in range(3):
        whole = base64.b64encode(b"x" * offset + data)
        yield whole[4:-4]


def found(directory: Path, words: list[str]) -> list[str]:
    """Return the files whose name or contents include one of the words in any encoding."""
    places = []
    for path in directory.rglob("*"):
        held = os.fsencode(path.name) + (path.read_bytes() if path.is_file() else b"")
        places += [f"{path.name}: {word}" for word in words if any(form in held for form in forms(word))]
    return places


def use(store: MemoryStore, markers: Markers, look: Callable[[], None]) -> None:
    """Run every command, also with large texts and some refused ones, and call `look` after each step."""

    def done(command: dict[str, object]) -> None:
        reply = store.execute(command, actor="session:tester")
        assert not reply.is_error, reply

    for number in range(SCALE):
        here, there = (f"/memories/{markers.path()}/{markers.path()}" for _ in range(2))
        done({"command": "create", "path": here, "file_text": f"{markers.text()}\n" * (1 if number else 5_000)})
        done({"command": "view", "path": here})
        if number:
            old = markers.texts[-1]
            done({"command": "str_replace", "path": here, "old_str": old, "new_str": markers.text()})
        done({"command": "insert", "path": here, "insert_line": 0, "insert_text": markers.text()})
        done({"command": "rename", "old_path": here, "new_path": there})
        done({"command": "rename", "old_path": there.rpartition("/")[0], "new_path": f"/memories/{markers.path()}"})
        done({"command": "view", "path": "/memories"})
        assert store.execute({"command": "create", "path": f"/memories/{markers.paths[-1]}", "file_text": "x"}).is_error
        assert store.execute({"command": "view", "path": f"/memories/{markers.path()}"}).is_error
        if number % 3 == 0:
            done({"command": "delete", "path": f"/memories/{markers.paths[-2]}"})
        look()
    assert not store.clear().is_error
    done({"command": "create", "path": f"/memories/{markers.path()}", "file_text": markers.text()})
    look()


@pytest.mark.parametrize("backend", ["sqlite", "directory"])
def test_no_text_is_on_disk(backend: str, tmp_path: Path) -> None:
    """The search runs while the store is in use, after closing, after a rotation and after the key was destroyed."""
    markers = Markers()
    place = place_of(backend, tmp_path)

    def look() -> None:
        assert found(tmp_path, markers.texts[-3:]) == []

    for _ in range(2):
        with retentive.open(place, keys=KEYS, max_memory_bytes=0) as opened:
            store = opened.store()
            use(store, markers, look)
            assert isinstance(opened.backend, SealedBackend)
            rotate(opened.backend)
        look()
    with retentive.open(place, keys=KEYS) as opened:
        texts = {opened.store().version_text(version.id) for version in opened.store().versions()}
        assert all(any(word in text for text in texts) for word in markers.texts)  # all words were stored
        destroy(opened.backend, opened.store().id)
        assert found(tmp_path, markers.texts) == []
    assert found(tmp_path, markers.texts) == []


def test_the_search_finds_plain_text(tmp_path: Path) -> None:
    """In a store without keys, the search finds every text, every path and each encoding of a word."""
    markers = Markers()
    with retentive.open(place_of("sqlite", tmp_path), max_memory_bytes=0) as opened:
        use(opened.store(), markers, lambda: None)
    seen = {place.rpartition(" ")[2] for place in found(tmp_path, markers.texts + markers.paths)}
    assert set(markers.texts) <= seen
    assert len(seen) > len(markers.texts)
    for number, form in enumerate(forms("a-word-to-be-found")):
        (tmp_path / "form").write_bytes(b"\0" * number + form + b"\0")
        assert found(tmp_path, ["a-word-to-be-found"])


def test_no_hash_of_a_text_is_on_disk(tmp_path: Path) -> None:
    """The hash of a text would let a reader of the disk confirm a guess of the text."""
    with retentive.open(place_of("sqlite", tmp_path), keys=KEYS) as opened:
        store = opened.store()
        store.execute({"command": "create", "path": "/memories/a", "file_text": "yes"})
        (memory,) = store.memories()
        held = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert len(memory.sha256) == 64
        for form in (memory.sha256.encode(), bytes.fromhex(memory.sha256)):
            assert form not in held
