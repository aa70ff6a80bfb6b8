"""Renders the Markdown of an answer while it arrives, one block at a time. This module is used only on terminals."""

from __future__ import annotations

from rich.console import Console
from rich.markdown import Markdown

from retentive.cli.output import harmless


class MarkdownBlocks:
    """Collects the text of an answer, and renders each block (a paragraph, list, table or code) when it is complete."""

    def __init__(self) -> None:
        self._text = ""
        self._is_first = True

    def add(self, text: str) -> str:
        """Add a piece of text. Return the rendered blocks that this piece completes, or an empty string."""
        self._text += harmless(text)
        end = _complete_lines(self._text) if "\n" in text else 0
        if not end:
            return ""
        lines = self._text.split("\n")
        self._text = "\n".join(lines[end:])
        return self._rendered("\n".join(lines[:end]))

    def end(self) -> str:
        """End the answer, and return the rest of its text, rendered. The next piece of text begins a new answer."""
        rest, self._text = self._text, ""
        shown = self._rendered(rest) if rest.strip() else ""
        self._is_first = True
        return shown

    def _rendered(self, text: str) -> str:
        separator = "" if self._is_first else "\n"
        self._is_first = False
        return separator + rendered(text)


def rendered(text: str) -> str:
    """Return Markdown as text with terminal codes and a newline at the end.

    Control characters are escaped. Links are shown with their addresses, and HTML is shown as source text.
    """
    document = Markdown(harmless(text), code_theme="ansi_dark", hyperlinks=False)
    for token in document.parsed:  # rich leaves out HTML, even placeholders such as <name>
        if token.type == "html_block":
            token.type = "code_block"
        for child in token.children or ():
            if child.type == "html_inline":
                child.type = "text"
    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(document)
    lines = [line.rstrip() for line in capture.get().split("\n")]  # rich pads lines with spaces
    return "\n".join(lines).strip("\n") + "\n"


def _complete_lines(text: str) -> int:
    """Return the number of lines before the last block. Later text can change only the last block."""
    starts = [token.map[0] for token in Markdown(text).parsed if token.level == 0 and token.map]
    return starts[-1] if starts else 0
