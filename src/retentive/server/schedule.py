"""Schedule of the jobs of a server. It is a TOML file with one table per job."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from retentive.errors import InvalidInput

FIELDS: Mapping[str, Mapping[str, type]] = {
    "sweep": {},
    "collect": {"older_than_hours": int},
    "anchor": {"directory": str, "key": str},
    "backup": {"directory": str, "keep": int},
}
"""Names of the jobs, with the fields that each may have in addition to `every` or `at`."""
OPTIONAL = frozenset({"older_than_hours", "keep"})
_EVERY = re.compile(r"([1-9][0-9]{0,4})(m|h|d)", re.ASCII)
_UNITS = {"m": 60, "h": 3_600, "d": 86_400}
_AT = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """Job, and the times when it runs. `schedule` describes these times for people.

    Exactly one of `every_s` and `at` is set. `at` is a time of day in UTC: hour and minute.
    """

    name: str
    schedule: str
    every_s: int | None
    at: tuple[int, int] | None
    fields: Mapping[str, str | int] = field(default_factory=dict)

    def due_after(self, last: datetime) -> datetime:
        """Return the first time after `last` at which the job is due."""
        if self.at is None:
            return last + timedelta(seconds=self.every_s or 0)
        found = last.replace(hour=self.at[0], minute=self.at[1], second=0, microsecond=0)
        return found if found > last else found + timedelta(days=1)


def read_schedule(path: str) -> list[ScheduledJob]:
    """Return the jobs in a TOML file. Raises `InvalidInput` if the file is invalid."""
    try:
        found = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}") from None
    try:
        return [_job(name, given) for name, given in found.items()]
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def _job(name: str, given: object) -> ScheduledJob:
    if name not in FIELDS:
        raise InvalidInput(f"there is no job {name!r}; the jobs are {', '.join(FIELDS)}")
    if not isinstance(given, dict) or ("every" in given) == ("at" in given):
        raise InvalidInput(f'[{name}] needs `every = "1h"` or `at = "03:00"`, but not both')
    fields = {key: value for key, value in given.items() if key not in {"every", "at"}}
    kinds = FIELDS[name]
    for key in fields.keys() ^ kinds.keys():
        if key not in kinds or key not in OPTIONAL:
            raise InvalidInput(
                f"[{name}] {'does not support the field' if key not in kinds else 'needs the field'} {key}"
            )
    for key, value in fields.items():
        if type(value) is not kinds[key] or (isinstance(value, int) and value < 1):
            raise InvalidInput(
                f"[{name}] {key} must be {'a number of at least 1' if kinds[key] is int else 'a string'}"
            )
    if "directory" in fields and not os.access(fields["directory"], os.W_OK):
        raise InvalidInput(f"[{name}] the directory {fields['directory']} does not exist or cannot be written")
    text = given.get("every", given.get("at"))
    every, at = (_EVERY.fullmatch(str(text)), None) if "every" in given else (None, _AT.fullmatch(str(text)))
    if every is None and at is None:
        raise InvalidInput(f'[{name}] `every` must look like "15m", "1h" or "1d"; `at` must look like "03:00"')
    every_s = None if every is None else int(every[1]) * _UNITS[every[2]]
    hour = None if at is None else (int(at[1]), int(at[2]))
    return ScheduledJob(name, f"every {text}" if every else f"at {text} UTC", every_s, hour, fields)
