"""The backend suite on an encrypted backend."""

from __future__ import annotations

from pathlib import Path

from retentive.storage.contract import Backend, Clock, NewId
from retentive.storage.sealed.backend import SealedBackend
from retentive.storage.sealed.keys import KeyRing
from retentive.testing.backend_suite import BackendSuite

KEYS = KeyRing.new()


class SealedSuite(BackendSuite):
    seals = False

    def inner(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        raise NotImplementedError

    def open_backend(self, place: Path, *, clock: Clock, new_id: NewId) -> Backend:
        inner = self.inner(place, clock=clock, new_id=new_id)
        return SealedBackend(inner, KEYS, clock=clock, new_id=new_id)
