"""Output of `retentive demo`. It has colours and wrapped lines on a terminal, and plain lines in a pipe."""

from __future__ import annotations

import io
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from retentive.cli import output
from retentive.cli.demo.figures import EventRecord, Step

_LABEL_WIDTH = 9
_WIDEST = 110  # maximum width in columns, because longer lines of text are hard to read
_FILE_SHOWN = "Here's the content of "  # beginning of the reply to a view, docs/commands.md


class Screen:
    """Output of the demo. Most methods print a label, and lines of text next to it."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):  # UTF-8 in every locale, because memories are UTF-8
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
        self._console = Console(highlight=False)

    def title(self, text: str) -> None:
        """Print a heading."""
        self._console.print()
        self._print(Text(f"── {text} {'─' * max(2, self._width() - len(text) - 4)}", style="bold"))

    def say(self, label: str, text: str, *, label_style: str = "bold magenta") -> None:
        """Print wrapped text next to a label."""
        self._block(label, self._wrapped(_clean(text), _LABEL_WIDTH), label_style=label_style)

    def failed(self, text: str) -> None:
        """Print an error."""
        self._beside("failed", text, "bold red", "bold red")

    def plain(self, text: str, *, style: str = "") -> None:
        """Print lines without a label."""
        for line in self._fitted(text):
            self._print(Text(line, style=style))

    def command(self, text: str) -> None:
        """Print a command that users can copy. It is not wrapped."""
        self._print(Text(f"$ {text}", style="bold"))

    def step(self, step: Step, window: int | None) -> None:
        """Print a reply of Claude: the context edits before it, its texts and its calls."""
        of_window = f" of {window:,}" if window is not None else " tokens"
        if step.cleared is not None:
            results, tokens = step.cleared
            cleared = f"{output.counted(results, 'tool result')}, {tokens:,} tokens"
            self._beside("context:", f"cleared {cleared}; now {step.read:,}{of_window}", "yellow", "bold yellow")
        if step.compacted is not None:
            before, after = step.compacted
            text = f"compacted {before:,} tokens to a summary of {after:,}; now {step.prompt:,}{of_window}"
            self._beside("context:", text, "yellow", "bold yellow")
        for text in step.texts:
            self.say("claude", text)
        if step.calls:
            calls = "; ".join(map(_called, step.calls))
            self._beside(f"turn {step.turn}", f"{step.prompt:>6,} tokens  {calls}", label_style="bold cyan")

    def reply(self, name: str, text: str, *, is_error: bool) -> None:
        """Print the reply of a tool if it is an error, or if it shows the text of a memory."""
        if is_error:
            self._beside("error", text, "red", "bold red")
        elif name == "memory" and text.startswith(_FILE_SHOWN):
            self._beside("", text.partition("\n")[2], "dim")

    def table(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Print a line for each row: a name, a right-aligned number and a description."""
        names, numbers = (max(len(row[n]) for row in rows) for n in (0, 1))
        for name, number, text in rows:
            label = f"{name:<{names}}  {number:>{numbers}}  "
            self._block(label, self._fitted(text, len(label)))

    def _block(self, label: str, lines: Iterable[str], style: str = "", label_style: str = "bold") -> None:
        beside = label.ljust(_LABEL_WIDTH)
        for line in lines:
            self._print(Text().append(beside, label_style).append(line, style))
            beside = " " * len(beside)

    def _print(self, text: Text) -> None:
        text.rstrip()
        self._console.print(text, soft_wrap=True)

    def _beside(self, label: str, text: str, style: str = "", label_style: str = "bold") -> None:
        self._block(label, self._fitted(text, _LABEL_WIDTH), style, label_style)

    def _width(self) -> int:
        return min(self._console.width, _WIDEST) if self._console.is_terminal else _WIDEST

    def _fitted(self, text: str, beside: int = 0) -> Iterator[str]:
        """Return the lines of a text. They are wrapped to the width of a terminal, and unchanged in a pipe."""
        clean = _clean(text)
        return self._wrapped(clean, beside) if self._console.is_terminal else iter(clean.split("\n"))

    def _wrapped(self, text: str, beside: int) -> Iterator[str]:
        for line in text.split("\n"):
            indent = " " * (len(line) - len(line.lstrip()))
            room = max(20, self._width() - beside)
            yield from textwrap.wrap(line, room, subsequent_indent=indent) or [""]


def _called(call: EventRecord) -> str:
    """Return a short form of a call, such as `memory view /memories` or `read_week 3`."""
    given = call["input"]
    if call["name"] == "memory":
        return f"memory {given.get('command', '')} {given.get('path', given.get('old_path', ''))}".rstrip()
    return " ".join([call["name"], *map(str, given.values())])


def _clean(text: str) -> str:
    return "\n".join(output.harmless(line) for line in text.expandtabs().removesuffix("\n").split("\n"))
