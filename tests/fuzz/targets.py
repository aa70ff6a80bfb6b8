"""Targets of the fuzzer: functions of arbitrary bytes that fail if a reader of untrusted input breaks a promise.

A target may meet the errors that its reader documents. Every other exception is a finding.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import TypeAlias

import retentive
from retentive import MemoryStore
from retentive.console.markdown import rendered
from retentive.errors import InvalidInput, RetentiveError
from retentive.search.literal import parse_literal
from retentive.search.query import parse_query
from retentive.server.errors import HttpError
from retentive.server.requests import cursor_of, place_in
from retentive.transfer.archive import Archive
from retentive.transfer.import_files import tar_source
from retentive.transfer.lines import Copied
from retentive.values.paths import MemoryPath
from support.command_line import here

Target: TypeAlias = Callable[[bytes], None]
CORPUS = Path(__file__).with_name("corpus")
MAX_BYTES, MAX_FILES = 1 << 20, 100
BASE = "/console/s/x/m"
_TAGS = "p h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s hr br table thead tbody tr th td a span"
TAGS = set(_TAGS.split())
ATTRIBUTES = {("a", "href"), ("a", "rel"), ("a", "title"), ("pre", "tabindex"), ("span", "class")}
HARMLESS = ("http://", "https://", "mailto:", f"{BASE}/")


def text_of(data: bytes) -> str:
    """The bytes as text. Bytes that are no UTF-8 become lone surrogates, which the targets must bear too."""
    return data.decode("utf-8", "surrogateescape")


@cache
def store() -> MemoryStore:
    """A store in memory, which commands of all rounds change."""
    return retentive.open("sqlite://").store()


def commands(data: bytes) -> None:
    """Every input of the tool gets a reply, and every memory stays below /memories."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return
    reply = store().execute(raw)
    assert isinstance(reply.text, str)
    assert reply.is_error or reply.text


def paths(data: bytes) -> None:
    """A parsed path stays below the root, and its text parses to itself."""
    try:
        path = MemoryPath.parse(text_of(data))
    except RetentiveError:
        return
    first, *names = path.text.split("/")[1:]
    assert first == "memories"
    assert not {"", ".", ".."} & set(names)
    assert "\0" not in path.text
    assert MemoryPath.parse(path.text) == path


def cursor(data: bytes) -> None:
    """A cursor is refused, or gives the place that it was made of."""
    try:
        place = place_in(text_of(data), "list", 2)
    except HttpError:
        return
    with suppress(UnicodeEncodeError):  # JSON can hold lone surrogates, which no place has
        assert place_in(cursor_of("list", *place), "list", 2) == place


def archives(data: bytes) -> None:
    """No archive yields more bytes or files than allowed."""
    with suppress(RetentiveError):
        source = tar_source(io.BytesIO(data), max_bytes=MAX_BYTES, max_files=MAX_FILES, max_file_bytes=MAX_BYTES)
        found = list(source.items())
        assert len(found) <= 2 * MAX_FILES
        total = 0
        for _, read in source.items():
            text = read()
            total += len(text) if isinstance(text, bytes) else 0  # a text says why the file is refused
        assert total <= MAX_BYTES


def exports(data: bytes) -> None:
    """An export that is accepted has the versions of its headers, and a backup too."""
    with suppress(RetentiveError):
        archive = Archive(io.BytesIO(data))
        for header, lines in archive.stores([header.id for header in archive.headers]):
            assert sum(isinstance(line, Copied) for line in lines) == header.versions


class Elements(HTMLParser):
    """Asserts that all elements and attributes are harmless."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for name, value in attrs:
            assert (tag, name) in ATTRIBUTES, (tag, name)
            if name == "href":
                assert (value or "").lower().startswith(HARMLESS) or value == BASE, value

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def markdown(data: bytes) -> None:
    """The HTML of a text has no element, attribute or link that could act."""
    parser = Elements()
    parser.feed(rendered(data.decode("utf-8", "replace"), BASE))
    parser.close()


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput("not a time") from error


def queries(data: bytes) -> None:
    """A query is refused with a sentence, or parsed."""
    text = text_of(data)
    with suppress(RetentiveError):
        assert parse_query(text, _time).text
    for regex in (False, True):
        with suppress(RetentiveError):
            parse_literal(text, regex=regex)


TARGETS: dict[str, Target] = {
    "commands": commands,
    "paths": paths,
    "cursors": cursor,
    "archives": archives,
    "exports": exports,
    "markdown": markdown,
    "queries": queries,
}


def corpus(name: str) -> list[bytes]:
    """The seeds of a target: its files, and for exports new ones."""
    files = sorted((CORPUS / name).iterdir()) if (CORPUS / name).is_dir() else []
    return [*(file.read_bytes() for file in files), *(exported() if name == "exports" else [])]


@cache
def exported() -> list[bytes]:
    """An export, a compressed export and a backup of a store with a changed, a renamed and a deleted memory."""
    with tempfile.TemporaryDirectory() as folder:
        at, files = f"sqlite:///{folder}/memory.db", [f"{folder}/{name}" for name in ("a.tar", "b.tar.zst", "c.tar")]
        with retentive.open(at) as place:
            store = place.store()
            for path in ("/memories/a.md", "/memories/d/b.md", "/memories/gone.md"):
                store.create(path, f"{path}\n")
            store.append("/memories/a.md", "more\n")
            store.execute({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/e"})
            store.delete("/memories/gone.md")
        for file in files[:2]:
            here(at, "export", file)
        here(at, "admin", "backup", files[2])
        return [Path(file).read_bytes() for file in files]
