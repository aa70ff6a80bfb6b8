"""Values in table columns whose heading names a password or secret: CSV, Markdown tables, rows of an INSERT."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from retentive.redaction import values
from retentive.redaction.rules import Find
from retentive.redaction.values import CERTAIN, NO

if TYPE_CHECKING:
    from retentive.redaction.search import Budget

_WORDS = (
    "password|passwd|passwort|kennwort|passphrase|pwd|pass|pw|secret|token|api[ _-]?key|mot de passe|mdp|contraseña"
    "|senha|パスワード|密码|密碼|口令|client[ _-]?secret|access[ _-]?key|secret[ _-]?key|pin"
)
# A cell with one of these words, between separators. Its line is the head of a table if all other cells are short too.
SEEK_TABLE = rf"(?:\A|[\n,;\t|]|[ ][ ])[ \"'`*]{{0,2}}(?:[a-z]+[ _-])?(?:{_WORDS})[\"'`* ]*(?:[,;\t|\r\n]|\z)"
SEEK_INSERT = rf"insert[ \n]+into[ \n][^()]+\([^()]*(?:{_WORDS})[^()]*\)[\s]*values[\s]*\("
INSERT_HINT = r"insert[ \n]"
MAX_ROWS = 5_000  # maximum values that are found in one table
_CELL = re.compile(rf"[\s\"'`*]*(?:[a-z_ -]{{0,20}}[ _-])?(?:{_WORDS})[\s\"'`*]*", re.IGNORECASE)
_FIELD = re.compile(
    r"\s*(?:[NEe]?'((?:[^'\n]|''){0,200})'|\"([^\"\n]{0,200})\"|[^,'\"()]{0,100}(?:\([^()]{0,100}\))?)\s*([,)])"
)


def find_in_table(text: str, start: int, end: int, left: Budget) -> tuple[list[Find], int]:
    """Return the passwords in the table whose head has a cell at `start`, and the position where the table ends.

    No matches are returned if the line is not the head of a table.
    """
    begin = text.rfind("\n", max(0, start - 300), start + 1) + 1
    stop = text.find("\n", end - 1, end + 300)
    head = text[begin:stop].strip("\r") if stop > 0 else ""
    mark = next((mark for mark in ("|", "\t", ";", ",", "  ") if mark in head.strip()), "")
    cells = re.split(" {2,}", head) if mark == "  " else head.split(mark) if mark else []
    columns = [number for number, cell in enumerate(cells) if _CELL.fullmatch(cell)]
    if mark != "|" and not all(cell.strip() for cell in cells):
        return [], end  # an item of a list in code
    if not columns or len(head) > 300 or any(len(cell.split()) > 4 for cell in cells):
        return [], end
    finds: list[Find] = []
    known = {"": False}  # results by cell, because values repeat in a column
    at, sign = stop + 1, re.escape(mark[0])
    # One regular expression matches a whole row, because a table may fill the whole text.
    gap = " {2,}" if mark == "  " else sign
    field = r"\S+(?: \S+)*" if mark == "  " else f"[^{sign}\n]*"
    row = re.compile(rf"(?:{field}{gap}){{{columns[0]}}}({field})[^\n]*\n?")
    for match in row.finditer(text, at):
        if match.start() != at or match.end() == at or len(finds) >= MAX_ROWS:
            break
        at = match.end()
        cell = match[1]
        if cell not in known:
            value = cell.strip(" \t\r\"'`*")
            known[cell] = left.take() and " " not in value and values.password(value, quoted=True) > NO
        if known[cell]:
            value = cell.strip(" \t\r\"'`*")
            first = text.index(value, match.start(1))
            finds.append(Find("password", first, first + len(value), likely=True))
    return finds, at


def find_in_insert(text: str, start: int, end: int) -> Iterator[Find]:
    """Yield the values of a password column in `INSERT INTO users (name, password) VALUES ('bob', '...'), (...)`."""
    names = text[start:end].partition("(")[2].rpartition(")")[0].split(",")
    columns = [number for number, name in enumerate(names) if _CELL.fullmatch(name)]
    at = end
    for _ in range(200):
        for number in range(len(names)):
            field = _FIELD.match(text, at)
            if field is None:
                return
            at = field.end()
            group = 1 if field[1] is not None else 2
            if number in columns and field[group] and values.password(field[group], quoted=True):
                certain = values.password(field[group], quoted=True) == CERTAIN
                yield Find("password", *field.span(group), likely=not certain)
            if field[3] == ")":
                break
        following = re.compile(r"\s*,\s*\(").match(text, at)
        if following is None:
            return
        at = following.end()
