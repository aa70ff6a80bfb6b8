"""Sentences of the specification: some command produces each of them byte for byte."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

import retentive
from retentive import MemoryStore, Reply
from retentive.errors import OutcomeUnknown, PermissionDenied, RetentiveError, StoreFull, Unavailable
from retentive.storage.contract import Transaction
from retentive.storage.sqlite.backend import SqliteBackend
from support.commands import create, edit, view

from .transcript import TRANSCRIPTS, Exchange

T = TypeVar("T")
B = "/memories/b"
_PLACEHOLDER = re.compile(r"\{[^{}]+\}")
SENTENCES = [
    line
    for line in (Path(__file__).parent / "spec_sentences.txt").read_text("utf-8").split("\n")
    if line and not line.startswith("#")
]


class Failing(SqliteBackend):
    """SQLite backend whose next commit fails with `error`."""

    error: RetentiveError | None = None

    def write(self, store_id: str, work: Callable[[Transaction], T], **options: Any) -> T:
        if self.error is not None:
            raise self.error
        return super().write(store_id, work, **options)


@dataclass(frozen=True)
class Story:
    """Commands that succeed, followed by one whose reply contains the sentence."""

    commands: list[dict[str, Any]]
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self, directory: Path) -> Reply:
        with retentive.open(str(directory / "memory"), **self.settings) as opened:
            return self.last_of(opened.store())

    def last_of(self, store: MemoryStore) -> Reply:
        *before, last = self.commands
        assert [reply for reply in map(store.execute, before) if reply.is_error] == []
        return store.execute(last)


@dataclass(frozen=True)
class Failure(Story):
    """Story in which the storage fails at the last command."""

    error: RetentiveError = field(default_factory=RetentiveError)

    def run(self, directory: Path) -> Reply:
        backend = Failing(str(directory / "memory.db"))
        with closing(backend):
            store = MemoryStore(backend, backend.create_store(key="k", name="k"))
            backend.error = self.error
            return self.last_of(store)


@dataclass(frozen=True)
class Damage(Story):
    """Story in which the stored bytes change before the last command."""

    def run(self, directory: Path) -> Reply:
        with retentive.open(f"sqlite:///{directory}/memory.db") as opened:
            assert not opened.store().execute(create()).is_error
        with closing(sqlite3.connect(directory / "memory.db")) as connection, connection:
            connection.execute("UPDATE versions SET text = x'ff'")
        with retentive.open(f"sqlite:///{directory}/memory.db") as opened:
            return self.last_of(opened.store())


@dataclass(frozen=True)
class Link(Story):
    """Story on a directory with a symbolic link at `/memories/b`."""

    def run(self, directory: Path) -> Reply:
        (directory / "memory" / "memories").mkdir(parents=True)
        (directory / "memory" / "memories" / "b").symlink_to(directory)
        return super().run(directory)


@dataclass(frozen=True)
class Image(Story):
    """Story on a directory with image files, and a link to one."""

    def run(self, directory: Path) -> Reply:
        (directory / "memory" / "memories" / "d").mkdir(parents=True)
        for name in ("a.png", "d/b.JPeG"):
            (directory / "memory" / "memories" / name).write_bytes(b"\x89PNG\r\n\x1a\n\0\xff")
        (directory / "memory" / "memories" / "link.png").symlink_to("a.png")
        return super().run(directory)


KEY = "AKIA" + "IOSFODNN7QXWZ2EP"
STORIES: dict[str, list[Story]] = {
    "File {path} exceeds maximum line limit of 999,999 lines.": [
        Story([create(text="\n" * 1_000_000), view()], {"max_memory_bytes": 0})
    ],
    "Error: Permission denied: {path}": [Failure([create()], error=PermissionDenied("no"))],
    "Error: The memory store is full": [Failure([create()], error=StoreFull("no"))],
    "Error: The memory store is unavailable; try again later": [Failure([create()], error=Unavailable("no"))],
    "Error: The outcome of this command is unknown; view {path} before trying again": [
        Failure([create()], error=OutcomeUnknown("no"))
    ],
    "Error: The path {path} is taken by something that is not a memory": [
        Link([create(B)]),
        Image([create("/memories/a.png")]),
        Image([edit("a", "b", path="/memories/a.png")]),
        Image([view("/memories/a.png/c.png")]),
        Image([view("/memories/link.png")]),
    ],
    "Error: {path} is an image; this memory store holds text only": [
        Image([view("/memories/a.png")]),
        Image([create(), view("/memories/d//b.JPeG", view_range=[1, 2])]),
    ],
    "Error: The memory {path} is damaged": [Damage([view()]), Damage([edit("one", "1")])],
    "Error: {path} is read-only": [Story([create()], {"read_only": True})],
    "Note: {n} sensitive value(s) were removed before saving: {kinds}.": [Story([create(text=f"{KEY}\n")])],
    "Note: line {n} may hold a sensitive value ({kind}). Remove it unless it belongs here.": [
        Story([create(text="one\nthe password is hunter2\n")])
    ],
}
"""Sentences that no transcript has, because they need a setting, another storage or a failure."""


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_command_produces_every_sentence(sentence: str, tmp_path: Path) -> None:
    """In a transcript, or in each of its stories. It is a complete line, or the end of a line in brackets."""
    literals = map(re.escape, _PLACEHOLDER.split(sentence))
    end = r"\]" if sentence.startswith("View the rest") else ""
    pattern = re.compile((".* " if end else "") + ".*?".join(literals) + end)
    is_error = sentence.startswith(("Error: ", "No replacement", "The path ")) or "exceeds maximum" in sentence

    def is_said(reply: Reply | Exchange) -> bool:
        return reply.is_error == is_error and any(pattern.fullmatch(line) for line in reply.text.split("\n"))

    if sentence not in STORIES:
        assert any(is_said(exchange) for transcript in TRANSCRIPTS for exchange in transcript.exchanges)
    for number, story in enumerate(STORIES.get(sentence, ())):
        (directory := tmp_path / str(number)).mkdir()
        assert is_said(reply := story.run(directory)), reply


def test_every_story_is_about_a_sentence() -> None:
    assert STORIES.keys() <= set(SENTENCES)
