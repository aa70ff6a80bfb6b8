"""`check`: ask questions whose answers are known, and show what changed since the last run."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from typing import Any, BinaryIO

import click

from retentive.cli import output
from retentive.cli.exits import PROBLEMS
from retentive.cli.location import Location, naming
from retentive.cli.options import command
from retentive.cli.parameters import absolute, decoded, flag, option
from retentive.errors import InvalidInput, RetentiveError
from retentive.store import MemoryStore, core_of
from retentive.transfer.files import replace_file
from retentive.values.paths import ROOT

_EMPTY: Mapping[str, Any] = {"ask": "", "paths": [], "texts": [], "under": ROOT, "budget": 400, "limit": 0}
_WORDS = {str: "a text", list: 'a list of texts, such as ["refunds.md"]', int: "a whole number"}


def _questions(text: str, budget: int | None) -> dict[str, dict[str, Any]]:
    """Return the fields of each question of a file. Raises `InvalidInput`, which names the place."""
    try:
        defaults: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"this is not TOML: {error}") from None
    rows, found = defaults.pop("question", None), dict[str, dict[str, Any]]()
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInput("the file has no questions; each is a table [[question]]")
    for number, row in enumerate(rows, start=1):
        given = {**_EMPTY, **defaults, **row} | ({} if budget is None else {"budget": budget})
        for name, value in given.items():
            texts = value if isinstance(value, list) else ()
            if name not in _EMPTY:
                raise InvalidInput(f"question {number}: {name} is not one of {', '.join(_EMPTY)}")
            if type(value) is not type(_EMPTY[name]) or not all(isinstance(text, str) and text for text in texts):
                raise InvalidInput(f"question {number}: {name} must be {_WORDS[type(_EMPTY[name])]}")
        if given["ask"] in {"", *found} or not given["paths"] + given["texts"]:
            raise InvalidInput(f"question {number} needs an `ask` of its own, and `paths` or `texts` to be found")
        found[given["ask"]] = given
    return found


def _asked(
    store: MemoryStore, *, ask: str, paths: list[str], texts: list[str], under: str, budget: int, limit: int
) -> dict[str, Any]:
    """Return which paths and texts of a question are missing. A directory is found if a memory in it is."""
    tokens = None
    with naming("Question", ask):
        wanted = [core_of(store).parsed(absolute(path)).text for path in paths]
        if limit:
            hits = store.search(ask, limit=limit, under=absolute(under))
            found = [hit.path for hit in hits]
            text = "\n".join(snippet.text for hit in hits for snippet in hit.snippets)
        else:
            block = store.recall(ask, budget_tokens=budget, under=absolute(under))
            found, text, tokens = [passage.path for passage in block.passages], block.text, block.tokens
    missing = [path for path in wanted if not any(f"{each}/".startswith(f"{path}/") for each in found)]
    missing += [each for each in texts if each.casefold() not in text.casefold()]
    return {"found": not missing, "ask": ask, "tokens": tokens, "missing": missing, "paths": found}


@command(json='Print a JSON object: {"found", "total", "questions"}.')
@click.argument("file", type=click.File("rb"))
@option("--budget", "TOKENS", "Budget of each recall.  [default: as in FILE, or 400]", type=int)
@flag("--no-record", "Do not replace the record of the last run.")
def check(location: Location, file: BinaryIO, *, budget: int | None, no_record: bool) -> None:
    """Ask the questions in FILE, a TOML file, and report those whose answers are not found.

    Each table [[question]] has `ask`, and the `paths` and `texts` that `recall` must find; with `limit`, `search` must
    find them in the first hits. The outcome is recorded in FILE with the ending .last.json, and compared with the last
    one. Exits with status 17 if an answer was not found.

    \b
    [[question]]
    ask = "How long do refunds take?"
    paths = ["refunds.md"]
    """
    record = f"{os.path.splitext(file.name)[0]}.last.json" if os.path.isfile(file.name) else ""
    questions, before, notes = _questions(decoded(file.read()), budget), _last(record), list[str]()
    with location.existing() as store:
        rows = [_asked(store, **each) | {"before": before.get(ask)} for ask, each in questions.items()]
    outcome = json.dumps({row["ask"]: row["found"] for row in rows}, indent=1, ensure_ascii=False) + "\n"
    if record and not no_record:
        try:
            replace_file(record, outcome.encode())
        except RetentiveError as error:  # a read-only checkout
            notes.append(f"The outcome was not recorded: {error}.")
    found, worse = sum(row["found"] for row in rows), [row["ask"] for row in rows if row["before"] and not row["found"]]
    names = {True: "found", False: "missing", None: "new"}
    table = [[names[row["found"]], names[row["before"]], row["ask"], ", ".join(row["missing"])] for row in rows]
    output.emit(
        {"found": found, "total": len(rows), "questions": rows},
        output.table(table, ("now", "before", "question", "missing")),
        rows="questions",
        notes=[f"{found} of {len(rows)} questions answered" + f", {len(worse)} no longer" * bool(worse) + ".", *notes],
        status=PROBLEMS if found < len(rows) else 0,
    )


def _last(record: str) -> Mapping[str, bool]:
    """Return whether each question was answered in the last run. Empty if that is not known."""
    try:
        with open(record, "rb") as file:
            known = json.load(file)
        return {ask: found for ask, found in known.items() if isinstance(found, bool)}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
