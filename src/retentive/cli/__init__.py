"""The command line. `docs/cli.md` is its reference."""

from __future__ import annotations

from retentive.cli.exits import INTERRUPTED


def main() -> int:
    """Run `retentive` with the arguments of this process and return its exit status."""
    try:
        from retentive.cli.app import run  # noqa: PLC0415 - Ctrl-C while click is imported exits with the same status

        return run()
    except KeyboardInterrupt:
        return INTERRUPTED
