"""Runs the command line with `python -m retentive`, even if the program `retentive` is not on the PATH."""

import sys

from retentive.cli import main

if __name__ == "__main__":
    sys.exit(main())
