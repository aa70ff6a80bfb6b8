"""Encrypted servers pass the shipped suite, in the long profile: local backends show the same ten times faster."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.places import place_of
from retentive.locations import open_backend
from retentive.storage.contract import Backend, Clock, NewId

from .test_sealed_suite import SealedSuite as _SealedSuite

pytestmark = pytest.mark.long


class TestSealedPostgresql(_SealedSuite):
    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return open_backend(place_of("postgresql", place), clock=clock, new_id=new_id)


class TestSealedMariadb(_SealedSuite):
    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return open_backend(place_of("mariadb", place), clock=clock, new_id=new_id)


class TestSealedS3Paths(_SealedSuite):
    seal_paths = True

    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        return open_backend(place_of("s3", place), clock=clock, new_id=new_id)
