"""Formats the result of a command as records: one JSON object per line (ndjson), or CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from io import StringIO


def ndjson(result: str, rows: str | None) -> str:
    """Return one line of JSON for each record of a result.

    `result` is JSON. `rows` is the name of the field that contains the records, or None if there is no such field.
    """
    return "".join(f"{json.dumps(each)}\n" for each in _records(result, rows))


def as_csv(result: str, rows: str | None) -> str:
    """Return CSV: a line with the names of all fields, and one line for each record of a result.

    The arguments have the same meaning as in `ndjson`.
    """
    records = _records(result, rows)
    found = [each if isinstance(each, Mapping) else {"value": each} for each in records]
    names = list(dict.fromkeys(name for each in found for name in each))
    text = StringIO()
    if names:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([[_cell(each.get(name)) for name in names] for each in found])
    return text.getvalue()


def _records(result: str, rows: str | None) -> list[object]:
    """Return the records of a result: the list in its field `rows`, or the result itself if it is a list.

    Any other result is returned as the only record.
    """
    value = json.loads(result)
    if rows is not None and isinstance(value, dict) and rows in value:
        value = value[rows]
    return value if isinstance(value, list) else [value]


def _cell(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
