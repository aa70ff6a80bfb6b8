"""The tests every backend must pass. For your own: subclass it in a test file, say how yours is opened, run pytest.

    from retentive.testing.backend_suite import BackendSuite

    class TestMyBackend(BackendSuite):
        def open_backend(self, place, *, clock, new_id):
            return MyBackend(place / "memory.mine", clock=clock, new_id=new_id)

`place` is a directory that belongs to one test; opening it twice must give the same memories. A backend that keeps
nothing once it is closed says `lasting = False`, and is spared the tests of that; a layer that encrypts, and keeps no
seals for others, says `seals = False`. Needs pytest.
"""

from __future__ import annotations

import pytest

_PARTS = (
    "opening", "stores", "snapshots", "records", "moves", "history", "side_records", "promises", "seals", "sharing",
)  # fmt: skip
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from retentive.testing.backend_suite.history import HistorySuite  # noqa: E402 - after asking for readable asserts
from retentive.testing.backend_suite.moves import MovesSuite  # noqa: E402
from retentive.testing.backend_suite.promises import PromisesSuite  # noqa: E402
from retentive.testing.backend_suite.records import RecordsSuite  # noqa: E402
from retentive.testing.backend_suite.seals import SealsSuite  # noqa: E402
from retentive.testing.backend_suite.sharing import SharingSuite  # noqa: E402
from retentive.testing.backend_suite.side_records import NotesSuite  # noqa: E402
from retentive.testing.backend_suite.snapshots import SnapshotsSuite  # noqa: E402
from retentive.testing.backend_suite.stores import StoresSuite  # noqa: E402

__all__ = ["BackendSuite"]


class BackendSuite(
    StoresSuite,
    SnapshotsSuite,
    RecordsSuite,
    MovesSuite,
    HistorySuite,
    NotesSuite,
    PromisesSuite,
    SealsSuite,
    SharingSuite,
):
    """Every promise of `retentive.storage.contract`."""
