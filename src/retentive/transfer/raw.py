"""Raw transfer: an encrypted memory store is copied as it is stored, without its keys."""

from __future__ import annotations

from retentive.storage.contract import Backend, Snapshot


def below_encryption(backend: Backend) -> Backend:
    """The backend that an encrypting backend wraps; any other backend itself."""
    return backend.inner or backend


def is_raw(backend: Backend, snapshot: Snapshot) -> bool:
    """True if a snapshot of an encrypted store returns stored bytes, because `backend` does not decrypt."""
    return snapshot.seal is not None and backend.inner is None
