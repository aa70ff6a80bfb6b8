"""Records of the location as values: API keys, connected clients, dreams, webhook endpoints and their deliveries."""

from __future__ import annotations

import builtins
from contextlib import suppress
from typing import Final, Generic, TypeVar

from pydantic import TypeAdapter

from retentive.errors import Conflict, Damaged, InvalidInput
from retentive.store.location_records import ANY, LocationRecords, LogEntry

T = TypeVar("T")
ANYTHING: Final = object()
"""Default of the argument `before` of `put`."""


class RecordKind(Generic[T]):
    """Records of one kind. A read raises `Damaged` if a record is no value of `model`, a class or a dataclass."""

    def __init__(self, records: LocationRecords, name: str, model: type[T]) -> None:
        self._records, self._name, self._model = records, name, TypeAdapter(model)

    def get(self, key: str) -> T | None:
        """Return the value of a record, or None if there is no such record: a client may send any text as its id."""
        with suppress(InvalidInput):
            text = self._records.get(self._name, key)
            return None if text is None else self._parsed(text)
        return None

    def list(self, after: str = "", limit: int | None = None) -> builtins.list[T]:
        """Return the values of the records after the key `after`, in key order."""
        return [self._parsed(text) for _, text in self._records.list(self._name, after=after, limit=limit)]

    def put(self, key: str, value: T | None, *, before: object = ANYTHING, entry: LogEntry | None = None) -> None:
        """Write a record, as `LocationRecords.put` does. Raises `Conflict` if it has not the value `before`.

        Values are compared, since another version of retentive may have written the same one as another text.
        """
        expected: str | None = ANY
        if before is not ANYTHING:
            expected = self._records.get(self._name, key)
            if (None if expected is None else self._parsed(expected)) != before:
                raise Conflict("the record has changed since it was read")
        text = None if value is None else self._model.dump_json(value).decode()
        self._records.put(self._name, key, text, expected=expected, entry=entry)

    def _parsed(self, text: str) -> T:
        try:
            return self._model.validate_json(text)
        except ValueError:
            raise Damaged(f"a record of the kind {self._name} cannot be read") from None
