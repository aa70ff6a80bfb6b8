"""Test suite for storage backends. Subclass it in a test file, open your backend, and run pytest.

    from retentive.testing.backend_suite import BackendSuite

    class TestMyBackend(BackendSuite):
        def open_backend(self, place, *, clock, new_id):
            return MyBackend(place / "memory.mine", clock=clock, new_id=new_id)

`place` is a directory for one test. If it is opened twice, both backends must have the same memories. Set `lasting =
False` for a backend that stores nothing after it is closed, to skip the tests of durability. Set `seals = False` for an
encryption layer that does not store seals of other layers. Needs pytest.
"""

from __future__ import annotations

import pytest

_PARTS = ("opening", "stores", "snapshots", "versions", "history", "layers", "promises", "sharing")
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from retentive.testing.backend_suite.history import HistorySuite  # noqa: E402 - after the assert rewriting above
from retentive.testing.backend_suite.layers import LayersSuite  # noqa: E402
from retentive.testing.backend_suite.promises import PromisesSuite  # noqa: E402
from retentive.testing.backend_suite.sharing import SharingSuite  # noqa: E402
from retentive.testing.backend_suite.snapshots import SnapshotsSuite  # noqa: E402
from retentive.testing.backend_suite.stores import StoresSuite  # noqa: E402
from retentive.testing.backend_suite.versions import VersionsSuite  # noqa: E402

__all__ = ["BackendSuite"]


class BackendSuite(StoresSuite, SnapshotsSuite, VersionsSuite, HistorySuite, LayersSuite, PromisesSuite, SharingSuite):
    """Tests of every guarantee in `retentive.storage.contract`."""
