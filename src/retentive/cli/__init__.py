"""The command line. `docs/commands.md` is its reference."""

from __future__ import annotations

import gc

from retentive.cli.exits import INTERRUPTED


def main() -> int:
    """Run `retentive` with the arguments of this process and return its exit status."""
    gc.disable()  # imports create no garbage, but collecting it would take a tenth of the time of a short command
    try:
        from retentive.cli.app import run  # noqa: PLC0415 - imported here, so that Ctrl-C during the import is caught

        gc.freeze()
        gc.enable()
        return run()
    except KeyboardInterrupt:
        return INTERRUPTED
