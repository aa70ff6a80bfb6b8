"""Progress bars on a terminal. `output.progress` imports this module only for a bar, because importing rich is slow."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from retentive.cli.output import harmless


class Bar:
    """Progress bar on standard error. It is shown until `stop` is called."""

    def __init__(self, label: str, total: int | None) -> None:
        self._label, self._total = label, total
        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(label, total=total)
        self._bar.start()

    def advance(self, done: int, total: int | None, part: str) -> None:
        """Show that `done` of `total` units are finished. `part` names the current part of the work."""
        text = f"{self._label} {escape(harmless(part))}: {done}" if part else self._label
        self._bar.update(self._task, description=text, completed=done, total=self._total if total is None else total)

    def stop(self) -> None:
        """Remove the bar."""
        self._bar.stop()
