"""Records of a location: small values that belong to no memory store, such as API keys."""

from __future__ import annotations

from retentive.storage.contract import Backend, Transaction

SYSTEM_STORE = "memstore_" + "0" * 32
"""Id of the memory store that holds the records."""


class PlaceRecords:
    """Records of a location by kind and key, with compare-and-set. Threads and processes may share them."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        if backend.get_store(SYSTEM_STORE) is None:
            backend.create_store(key=None, name="system", store_id=SYSTEM_STORE)

    def get(self, kind: str, key: str) -> str | None:
        """Value of a record, or None."""
        return self._backend.read(SYSTEM_STORE, lambda snapshot: snapshot.get_record(kind, key))

    def list(self, kind: str) -> list[tuple[str, str]]:
        """Keys and values of all records of a kind, in key order."""
        return self._backend.read(SYSTEM_STORE, lambda snapshot: list(snapshot.records(kind)))

    def put(self, kind: str, key: str, value: str | None, expected: str | None) -> bool:
        """Replace the value of a record if it is `expected`. None means that there is no record. False if it is not."""

        def work(tx: Transaction) -> bool:
            if tx.get_record(kind, key) != expected:
                return False
            tx.put_record(kind, key, value)
            return True

        return self._backend.write(SYSTEM_STORE, work)
