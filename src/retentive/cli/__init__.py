"""The command line. `docs/cli.md` is its reference."""

from __future__ import annotations

import gc

from retentive.cli.exits import INTERRUPTED


def main() -> int:
    """Run `retentive` with the arguments of this process and return its exit status."""
    gc.disable()  # imports create no garbage, and collecting during them takes a tenth of a short command's time
    try:
        from retentive.cli.app import run  # noqa: PLC0415 - Ctrl-C during this import gives the same status

        gc.freeze()
        gc.enable()
        return run()
    except KeyboardInterrupt:
        return INTERRUPTED
