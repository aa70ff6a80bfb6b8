"""Values in rows: columns of tables (CSV, Markdown, INSERT), words of recovery phrases, pairs of cookies."""

from __future__ import annotations

import re

from retentive.redaction import checks
from retentive.redaction.checks import CERTAIN, is_mixed
from retentive.redaction.rules import Find, data

_LISTS = data()["words"]
TABLE_WORDS, SEED_WORDS = _LISTS["table"], _LISTS["seed"]
_HEADING = re.compile(rf"[\s\"'`*]*(?:[a-z_ -]{{0,20}}[ _-])?(?:{'|'.join(TABLE_WORDS[:-1])})[\s\"'`*]*", re.IGNORECASE)
_INSERT = re.compile(r"insert\s{1,9}into\s{1,9}[^()]{1,200}\(([^()]{1,2000})\)\s{0,9}values\s{0,9}", re.IGNORECASE)
_ROW = re.compile(r"[\s,]{0,9}\(((?:[^()'\"]|'(?:[^'\n]|'')*'|\"[^\"\n]*\"|\([^()]{0,100}\)){0,4000})\)")
_FIELD = re.compile(r"\s*(?:[NEe]?'((?:[^'\n]|'')*)'|\"([^\"\n]*)\"|([^,'\"]*))\s*(?:,|$)")
_MAX_HEAD = 300  # characters

COOKIE_WORDS = ("cookie", "curl ")
_SEED = re.compile(r"(?<![a-z])(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8}(?![A-Za-z])")
_SEED_CHARS = 500  # characters after the word in which a recovery phrase is searched
_COOKIES = re.compile(r"cookies?[\"'\]]*[ ]?[:=,(]|curl[ ][^\n]{0,200}?(?:-b|--cookie)[ =]", re.IGNORECASE)
_PAIR = re.compile(
    r"(?<![\w.-])[\w.-]{0,40}?(?:sess|sid|auth|token|remember|login|jwt)[\w.-]{0,40}[\"']?[ ]?[=:][ ]?[\"']?"
    r"(?P<value>[\w%.~+/|-]{16,4000}={0,2})",
    re.IGNORECASE,
)
_PUBLIC = re.compile("csrf|xsrf", re.IGNORECASE)
_LINE_CHARS = 4_000


def find_table(text: str, start: int, end: int) -> tuple[list[Find], int]:
    """Return the passwords in the table whose head has a word for a password at `start`, and the end of the table."""
    if text[start:end].lower() == "insert into":
        return _in_insert(text, start)
    begin = text.rfind("\n", max(0, start - _MAX_HEAD), start) + 1
    stop = text.find("\n", end, begin + _MAX_HEAD)
    head = text[begin : max(stop, 0)].strip("\r")
    mark = next((mark for mark in ("|", "\t", ";", ",", "  ") if mark in head.strip()), "")
    cells = _cells(head, mark)
    columns = [number for number, cell in enumerate(cells) if _HEADING.fullmatch(cell)]
    is_list = mark != "|" and not all(cell.strip() for cell in cells)  # an item of a list in code
    if not mark or not columns or is_list or any(len(cell.split()) > 4 for cell in cells):
        return [], end
    finds: list[Find] = []
    at = stop + 1
    while at < len(text):
        row = text[at : (text.find("\n", at) + 1) or len(text)]
        if mark not in row.rstrip("\n"):
            break
        place = at
        for number, cell in enumerate(_cells(row, mark)):
            place = text.index(cell, place)
            value = cell.strip(" \t\r\n\"'`*")
            if number in columns and checks.password(value, quoted=True):
                first = text.index(value, place)
                finds.append(Find("password", first, first + len(value), likely=True))
            place += len(cell)
        at += len(row)
    return finds, at


def _cells(row: str, mark: str) -> list[str]:
    return re.split(" {2,}", row) if mark == "  " else row.split(mark) if mark else []


def _in_insert(text: str, start: int) -> tuple[list[Find], int]:
    """Return the values of password columns in `INSERT INTO users (name, password) VALUES ('bob', '...'), (...)`."""
    head = _INSERT.match(text, start)
    if head is None:
        return [], start
    columns = {number for number, name in enumerate(head[1].split(",")) if _HEADING.fullmatch(name)}
    finds: list[Find] = []
    at = head.end()
    while columns and (row := _ROW.match(text, at)) is not None:
        for number, field in enumerate(_FIELD.finditer(row[1])):
            grade = checks.password(field[1] or field[2] or "", quoted=True) if number in columns else 0
            if grade:
                first, last = field.span(field.lastindex or 0)
                finds.append(Find("password", row.start(1) + first, row.start(1) + last, likely=grade < CERTAIN))
        at = row.end()
    return finds, at


def find_seed(text: str, start: int, end: int) -> tuple[list[Find], int]:
    """Return the recovery phrase after a word for it: 12, 15, 18, 21 or 24 uncommon words (BIP-39)."""
    stop = end + _SEED_CHARS
    match = _SEED.search(text, end, stop)
    if match is None:
        return [], stop
    words = re.findall(r"[a-z]+", match[0])
    while len(words) > 12 and words[0] in {"phrase", "words", "word", "is", "seed", "mnemonic"}:
        words = words[1:]
    if len(words) not in {12, 15, 18, 21, 24} or not set(words).isdisjoint(_LISTS["no_seed"]):
        return [], match.end()
    return [Find("seed_phrase", text.index(words[0], match.start()), match.end(), likely=True)], match.end()


def find_cookies(text: str, start: int, end: int) -> tuple[list[Find], int]:
    """Return the values of session cookies in a header or after an option of curl."""
    lead = _COOKIES.match(text, start)
    if lead is None:
        return [], start
    stop = text.find("\n", lead.end(), lead.end() + _LINE_CHARS)
    stop = stop if stop >= 0 else min(len(text), lead.end() + _LINE_CHARS)
    finds: list[Find] = []
    for match in _PAIR.finditer(text, lead.end(), stop):
        value, at = match["value"].rstrip(".:|"), match.start("value")
        if is_mixed(value) and not _PUBLIC.search(text, match.start(), at):
            finds.append(Find("session_cookie", at, at + len(value)))
    return finds, stop
