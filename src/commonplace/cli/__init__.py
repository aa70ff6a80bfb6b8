"""The command line. `docs/cli.md` is its reference."""

from __future__ import annotations

from commonplace.cli.exits import INTERRUPTED


def main() -> int:
    """Run `commonplace` with the arguments of this process; its exit status."""
    try:
        from commonplace.cli.app import run  # noqa: PLC0415 - an interrupt while click is imported counts as one too

        return run()
    except KeyboardInterrupt:
        return INTERRUPTED
