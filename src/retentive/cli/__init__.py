"""The command line. `docs/cli.md` is its reference."""

from __future__ import annotations

from retentive.cli.exits import INTERRUPTED


def main() -> int:
    """Run `retentive` with the arguments of this process and return its exit status."""
    try:
        from retentive.cli.app import run  # noqa: PLC0415 - imported here, so that Ctrl-C during the import is caught

        return run()
    except KeyboardInterrupt:
        return INTERRUPTED
