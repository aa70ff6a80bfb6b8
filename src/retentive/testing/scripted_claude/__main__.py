"""`python -m retentive.testing.scripted_claude`."""

from __future__ import annotations

import sys

from retentive.testing.scripted_claude.server import main

sys.exit(main())
