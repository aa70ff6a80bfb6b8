"""The command line. `docs/cli.md` is its reference."""

from __future__ import annotations

import gc

from retentive.cli.exits import INTERRUPTED


def main() -> int:
    """Run `retentive` with the arguments of this process and return its exit status."""
    gc.disable()  # imports leave no garbage: searching them for it takes a tenth of the time of a short command
    try:
        from retentive.cli.app import run  # noqa: PLC0415 - Ctrl-C while click is imported exits with the same status

        gc.freeze()
        gc.enable()
        return run()
    except KeyboardInterrupt:
        return INTERRUPTED
