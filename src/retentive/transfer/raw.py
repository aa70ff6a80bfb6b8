"""Raw transfer: an encrypted memory store is copied as it is stored, without its keys."""

from __future__ import annotations

from retentive.storage.capabilities import Encrypting
from retentive.storage.contract import Backend, Snapshot


def below_encryption(backend: Backend) -> Backend:
    """The backend that an encrypting layer wraps; `backend` itself if there is no such layer."""
    layer: Backend | None = backend
    while layer is not None:
        if isinstance(layer, Encrypting):
            return layer.inner or backend
        layer = layer.inner
    return backend


def is_raw(backend: Backend, snapshot: Snapshot) -> bool:
    """True if a snapshot of an encrypted store returns stored bytes, because `backend` does not decrypt."""
    return snapshot.seal is not None and below_encryption(backend) is backend
