"""`init`: create an empty memory store, and print code that uses it."""

from __future__ import annotations

from dataclasses import dataclass

from retentive.cli import output
from retentive.cli.location import Location, shown, take_over
from retentive.locations import find_store, is_foreign, location_exists
from retentive.opening import DEFAULT_KEY

_CODE = """\
import os

import retentive

store = retentive.open({location}).store({key!r})
"""


@dataclass(frozen=True, slots=True)
class Made:
    """Result of `init`.

    `at` is the location without its password. `store` is the key of the store. `code` is a program that uses
    the store. `is_new` is False if the store existed before. `took_over` is True if existing plain files became the
    memories.
    """

    at: str
    store: str
    is_new: bool
    memories: int
    code: str
    took_over: bool = False


@output.command(json="Print a JSON object.")
def init(location: Location) -> None:
    """Create the location and the memory store, and print code that uses them. Existing memories are kept."""
    is_new, took_over = not _exists(location), is_foreign(location.url)
    with location.created() as store:
        if took_over:
            take_over(store)
        key, memories = store.key or location.store_key, store.usage().memories
    made = Made(location.shown, key, is_new, memories, _code(location, key), took_over=took_over and bool(memories))
    output.emit(made, plain=_report(made))


def _exists(location: Location) -> bool:
    if not location_exists(location.url):
        return False
    with location.opened() as found:
        return find_store(found.backend, location.store_key) is not None


def _code(location: Location, key: str) -> str:
    """Return a program that uses the memory store.

    If the URL of the location contains a password, the program reads the URL from the environment.
    """
    opened = repr(location.url) if shown(location.url) == location.url else 'os.environ["RETENTIVE_AT"]'
    opened += f", keys={location.keys!r}" if location.keys is not None else ""
    code = _CODE.format(location=opened, key=key)
    if "os.environ" not in code:
        code = code.removeprefix("import os\n\n")
    return code.replace(f"store({key!r})", "store()") if key == DEFAULT_KEY else code


def _report(made: Made) -> str:
    memories = output.counted(made.memories, "memory")
    if made.took_over:
        lines = [f"Took over the plain files at {made.at}: the memory store {made.store} has {memories}."]
    elif made.is_new:
        lines = [f"Created the memory store {made.store} at {made.at}, with {memories}."]
    else:
        lines = [f"The memory store {made.store} exists at {made.at}, with {memories}."]
    lines += ["", "To use it:", ""]
    return "\n".join([*lines, *(f"    {line}".rstrip() for line in made.code.splitlines()), ""])
