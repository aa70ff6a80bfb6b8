"""How `commonplace demo` looks: aligned and coloured on a terminal, plain lines in a pipe."""

from __future__ import annotations

import io
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.text import Text

from commonplace.cli import output
from commonplace.store import MemoryStore

_LABEL_WIDTH = 9
_WIDEST = 110  # columns; longer lines of prose are hard to read
_BODY = {"create": "file_text", "insert": "insert_text"}


class Screen:
    """Where the demo is shown. Each thing said is a block: a label, and lines beside it."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):  # UTF-8 whatever the locale says, as memories are
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        self._console = Console(highlight=False)

    def title(self, text: str) -> None:
        """A heading over a part of the demo."""
        self._console.print()
        self._print(Text(f"── {text} {'─' * max(2, self._width() - len(text) - 4)}", style="bold"))

    def say(self, label: str, text: str, *, label_style: str = "bold") -> None:
        """What someone says: prose beside its label, wrapped."""
        self._block(label, self._wrapped(_clean(text), _LABEL_WIDTH), label_style=label_style)

    def failed(self, text: str) -> None:
        """What went wrong."""
        self._block("failed", self._fitted(text, _LABEL_WIDTH), "bold red", "bold red")

    def _block(self, label: str, lines: Iterable[str], style: str = "", label_style: str = "bold") -> None:
        for n, line in enumerate(lines):
            beside = label if n == 0 else ""
            self._print(Text().append(beside.ljust(_LABEL_WIDTH), label_style).append(line, style))

    def plain(self, text: str, *, style: str = "") -> None:
        """Lines without a label."""
        for line in self._fitted(text):
            self._print(Text(line, style=style))

    def call(self, name: str, given: Mapping[str, object]) -> None:
        """What the model asks of a tool: the command, and the text it brings, with + and - as in a diff."""
        command = str(given.get("command", ""))
        where = given.get("path", given.get("old_path", ""))
        parts = [name, command, str(where), *_extras(command, given)]
        self._beside("call", " ".join(part for part in parts if part), "cyan", "bold cyan")
        if command == "str_replace":
            self._beside("", _marked("- ", given.get("old_str")), "red")
            self._beside("", _marked("+ ", given.get("new_str")), "green")
        elif command in _BODY:
            self._beside("", _marked("+ ", given.get(_BODY[command])), "green")

    def reply(self, text: str, *, is_error: bool) -> None:
        """What the tool answered, to the letter but for tabs shown as spaces."""
        color = "red" if is_error else "dim"
        self._beside("error" if is_error else "reply", text, color, f"bold {color}")

    def files(self, root: Path) -> None:
        """A directory as a tree, and what stands in the files of its `memories`."""
        self.plain(f"{root}/", style="bold")
        for row in _tree(root):
            self.plain(row)
        for file in sorted((root / "memories").rglob("*")):
            if file.is_file():
                self._console.print()
                self.plain(str(file), style="bold")
                self.plain(_without_final_newline(file.read_text("utf-8", errors="replace")), style="dim")

    def memories(self, store: MemoryStore) -> None:
        """The memories of a store that has no files of its own."""
        for n, memory in enumerate(store.memories("/memories")):
            self.plain(memory.path if n == 0 else f"\n{memory.path}", style="bold")
            self.plain(_without_final_newline(store.text(memory.path)), style="dim")

    def history(self, store: MemoryStore) -> None:
        """Every version of every memory, oldest first."""
        versions = sorted(store.versions(), key=lambda version: version.revision)
        actors = [str(version.actor or "unknown") for version in versions]
        width = max((len(actor) for actor in actors), default=0)
        for version, actor in zip(versions, actors, strict=True):
            at = version.created_at.astimezone().strftime("%H:%M:%S")
            size = "" if version.size_bytes is None else f"{version.size_bytes:>6,} B"
            self.plain(f"{at}  {actor:<{width}}  {version.operation:<8}  {size}  {version.path}")

    def _print(self, text: Text) -> None:
        text.rstrip()
        self._console.print(text, soft_wrap=True)

    def _beside(self, label: str, text: str, style: str, label_style: str = "bold") -> None:
        self._block(label, self._fitted(text, _LABEL_WIDTH), style, label_style)

    def _width(self) -> int:
        return min(self._console.width, _WIDEST) if self._console.is_terminal else _WIDEST

    def _fitted(self, text: str, beside: int = 0) -> Iterator[str]:
        """The lines of `text`: wrapped to a terminal, and in a pipe as they are."""
        clean = _clean(text)
        return self._wrapped(clean, beside) if self._console.is_terminal else iter(clean.split("\n"))

    def _wrapped(self, text: str, beside: int) -> Iterator[str]:
        for line in text.split("\n"):
            indent = " " * (len(line) - len(line.lstrip()))
            room = max(20, self._width() - beside)
            yield from textwrap.wrap(line, room, subsequent_indent=indent) or [""]


def _clean(text: str) -> str:
    return "\n".join(output.harmless(line) for line in text.expandtabs().split("\n"))


def _extras(command: str, given: Mapping[str, object]) -> list[str]:
    if command == "rename":
        return ["->", str(given.get("new_path", ""))]
    if command == "insert":
        return [f"(after line {given.get('insert_line')})"]
    return [f"(lines {given['view_range']})"] if given.get("view_range") is not None else []


def _marked(mark: str, text: object) -> str:
    lines = _without_final_newline(str(text or "")).split("\n")
    return "\n".join(f"{mark}{line}" for line in lines)


def _without_final_newline(text: str) -> str:
    return text.removesuffix("\n")


def _tree(directory: Path, indent: str = "") -> Iterator[str]:
    entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    for n, entry in enumerate(entries, 1):
        is_directory = entry.is_dir(follow_symlinks=False)
        is_last = n == len(entries)
        yield f"{indent}{'└── ' if is_last else '├── '}{entry.name}{'/' if is_directory else ''}"
        if is_directory:
            yield from _tree(Path(entry.path), indent + ("    " if is_last else "│   "))
