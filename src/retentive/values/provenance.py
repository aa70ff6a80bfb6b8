"""Provenance of versions: the call that made a change, the contributors to a text, and its flagged lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias, TypedDict

from retentive.errors import InvalidInput
from retentive.values.text import plain_name

MAX_SOURCE_CHARS = 2_000
CARRIED = "carried by a promotion"
"""Cause of a version that a promotion carried to another memory store, where it is older than its id."""


class Flag(NamedTuple):
    """Number of a flagged line of a text, and the kind of the flag, such as `password`."""

    line: int
    kind: str


Flags: TypeAlias = Sequence[tuple[int, str]]
"""Flagged lines of a text."""


class Contributor(NamedTuple):
    """One contribution to a text. Unknown fields are empty.

    `at` is the revision of the store before the contribution. It distinguishes contributions of the same actor.
    """

    at: str
    actor: str = ""
    session: str = ""
    source: str = ""

    @property
    def names(self) -> tuple[str, str, str]:
        """Return all fields except `at`."""
        return self[1:]

    @property
    def mark(self) -> str:
        """Digest of the contribution. A confirmation (the record that a person trusts a memory) lists such digests."""
        return hashlib.blake2b(json.dumps(self).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of a version.

    The application passed `source` and `session` with the change. `flags` contains, for each flagged line, the line
    number and the kind of the flag. `contributors` lists the contributions that the text builds on, newest last. If
    there are more than 16, it has only the newest, and `older` is the key of a record with the others. `accepted_by` is
    the actor who accepted the change, if it waited for review. `cause` names the undo or restore that made the version,
    such as `undo of r3`. If a request to a server made the change, `api_key_id` is the id of the API key of the
    request, unless the actor of the version is this API key.
    """

    integration: str = ""
    tool_use_id: str = ""
    session: str = ""
    source: str = ""
    flags: tuple[tuple[int, str], ...] = ()
    contributors: tuple[Contributor, ...] = ()
    cause: str = ""
    api_key_id: str = ""
    older: str = ""
    accepted_by: str = ""


NOTHING = Provenance()
_FULL = len(Contributor._fields)  # number of strings in a stored contributor
_NAMES = "integration", "tool_use_id", "session", "source"


@lru_cache(maxsize=4_096)
def parse_provenance(text: str | None) -> Provenance:
    """Parse the stored provenance of a version or memory. Return an empty one for None or an invalid text."""
    if text is None:
        return NOTHING
    try:
        given = json.loads(text)
        integration, call, session, source = (str(given.get(name, "")) for name in _NAMES)
        flags = tuple(Flag(int(line), str(kind)) for line, kind in given.get("flags", ()))
        by = tuple(Contributor(*map(str, each[:_FULL])) for each in given.get("by", ()))
        rest = (str(given.get(name, "")) for name in ("cause", "key", "older", "accepted"))
        return Provenance(integration, call, session, source, flags, by, *rest)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return NOTHING


def of_external_edit(earlier: str | None, own: Contributor) -> str:
    """Return the stored provenance of an edit of a plain file. `earlier` is that of the text before."""
    made = parse_provenance(earlier)
    others = [each for each in made.contributors if each.names != own.names]
    fields = {"integration": "files", "by": [*others, own], "older": made.older}
    return json.dumps({name: value for name, value in fields.items() if value})


class Origin(TypedDict, total=False):
    """Origin of a change, as keyword arguments. All methods that change memories accept them."""

    source: str | None
    session: str | None


def origin_of(source: object = None, session: object = None) -> Origin:
    """Return an `Origin` of the arguments that are not None. Raises `InvalidInput` for an invalid source or session."""
    origin: Origin = {}
    if source is not None:
        if not isinstance(source, str) or not 1 <= len(source) <= MAX_SOURCE_CHARS or not source.isprintable():
            raise InvalidInput(f"a source must be 1 to {MAX_SOURCE_CHARS} printable characters, such as web:URL")
        origin["source"] = source
    if session is not None:
        if not isinstance(session, str):
            raise InvalidInput(f"a session must be a string, not {type(session).__name__}")
        origin["session"] = plain_name("a session", session)
    return origin
