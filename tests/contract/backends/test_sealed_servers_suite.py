"""Encrypted servers pass the shipped suite.

It runs in the long profile only, since local backends are ten times faster.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from retentive.errors import InvalidInput
from retentive.locations import open_backend
from retentive.storage.contract import Backend, Clock, NewId
from retentive.testing.backend_suite.opening import A, Opened
from retentive.testing.backend_suite.sharing import count_up, exit_status, fork_child
from support.places import place_of

from .sealed_suite import SealedSuite as _SealedSuite


def refused_in_a_child(store: Opened) -> None:
    """Check that reads and writes in a forked child fail, for object storage that was opened before the fork."""
    for call in (store.tree, lambda: count_up(store, 1)):
        with pytest.raises(InvalidInput, match="open the location after the fork"):
            call()


pytestmark = pytest.mark.long


class TestSealedPostgresql(_SealedSuite):
    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return open_backend(place_of("postgresql", place), clock=clock, new_id=new_id)


class TestSealedMariadb(_SealedSuite):
    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return open_backend(place_of("mariadb", place), clock=clock, new_id=new_id)


class TestSealedS3(_SealedSuite):
    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return open_backend(place_of("s3", place), clock=clock, new_id=new_id)

    def test_a_forked_child_is_independent(self, tmp_path: Path) -> None:
        """The forked child gets a clear error, and the parent continues to work."""
        store = Opened(self.opened(tmp_path))
        store.create({A: b"0"})
        child = fork_child(lambda: refused_in_a_child(store))
        count_up(store, 10)
        assert exit_status(child) == 0
        assert store.tree() == {A: b"10"}
