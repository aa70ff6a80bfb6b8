"""Markdown of an answer, rendered block by block while the answer arrives. Imported on terminals only."""

from __future__ import annotations

from rich.console import Console
from rich.markdown import Markdown

from retentive.cli.output import harmless


class MarkdownBlocks:
    """Collects text until a block is complete: a paragraph, a list, a table or fenced code."""

    def __init__(self) -> None:
        self._text = ""
        self._is_first = True

    def add(self, text: str) -> str:
        """Add a piece of text, and return the blocks that are complete now, rendered."""
        self._text += harmless(text)
        end = _complete_lines(self._text) if "\n" in text else 0
        if not end:
            return ""
        lines = self._text.split("\n")
        self._text = "\n".join(lines[end:])
        return self._rendered("\n".join(lines[:end]))

    def end(self) -> str:
        """Return the rest, rendered, and begin a new answer."""
        rest, self._text = self._text, ""
        shown = self._rendered(rest) if rest.strip() else ""
        self._is_first = True
        return shown

    def _rendered(self, text: str) -> str:
        separator = "" if self._is_first else "\n"
        self._is_first = False
        return separator + rendered(text)


def rendered(text: str) -> str:
    """Markdown as text with terminal codes, and a newline at the end.

    Control characters are escaped, and the address of a link is shown. HTML is shown as it was written.
    """
    document = Markdown(harmless(text), code_theme="ansi_dark", hyperlinks=False)
    for token in document.parsed:  # rich leaves out HTML, and with it placeholders such as <name>
        if token.type == "html_block":
            token.type = "code_block"
        for child in token.children or ():
            if child.type == "html_inline":
                child.type = "text"
    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(document)
    lines = [line.rstrip() for line in capture.get().split("\n")]  # rich fills lines up to the width
    return "\n".join(lines).strip("\n") + "\n"


def _complete_lines(text: str) -> int:
    """Number of lines before the last block. Later text can still change the last block, but no earlier block."""
    starts = [token.map[0] for token in Markdown(text).parsed if token.level == 0 and token.map]
    return starts[-1] if starts else 0
