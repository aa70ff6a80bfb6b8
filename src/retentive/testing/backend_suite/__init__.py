"""Test suite for storage backends. Write a subclass of `BackendSuite` that opens your backend, and run pytest.

    from retentive.testing.backend_suite import BackendSuite

    class TestMyBackend(BackendSuite):
        def open_backend(self, place, *, clock, new_id):
            return MyBackend(place / "memory.mine", clock=clock, new_id=new_id)

`place` is a directory for one test. If `open_backend` is called twice with the same directory, both backends must have
the same memories. Set the class attribute `lasting = False` for a backend that loses its memories when it is closed;
the tests of durability are then skipped. Set `seals = False` for an encryption layer, which seals memories itself and
does not store the seals of other layers. The suite needs pytest.
"""

from __future__ import annotations

import pytest

_PARTS = ("opening", "stores", "snapshots", "versions", "packs", "layers", "sharing")
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from retentive.testing.backend_suite.layers import LayersSuite  # noqa: E402
from retentive.testing.backend_suite.packs import PacksSuite  # noqa: E402
from retentive.testing.backend_suite.sharing import SharingSuite  # noqa: E402
from retentive.testing.backend_suite.snapshots import SnapshotsSuite  # noqa: E402
from retentive.testing.backend_suite.stores import StoresSuite  # noqa: E402
from retentive.testing.backend_suite.versions import VersionsSuite  # noqa: E402

__all__ = ["BackendSuite"]


class BackendSuite(StoresSuite, SnapshotsSuite, VersionsSuite, PacksSuite, LayersSuite, SharingSuite):
    """Tests of every guarantee in `retentive.storage.contract`."""
