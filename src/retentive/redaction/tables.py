"""Passwords that are not right after the word for them: table columns, INSERT values, text before the word."""

# ruff: noqa: E501 - a pattern or a list is a line

from __future__ import annotations

import re
from collections.abc import Iterator

from retentive.redaction.plausibility import Value, is_obvious, is_password, is_secret
from retentive.redaction.rules import Find

_MAX_ROWS, _MAX_HEAD = 100, 2000
_DELIMITERS = re.compile(r"[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)*\|?[ \t]*\r?\n")
_LINE = re.compile(r"[^\n]{0,2000}(?:\n|$)")
_CELL = re.compile(r"[ \t]*[`\"'*]{0,2}([^|\s`\"'][^|\s`\"']{0,199})[`\"'*]{0,2}[ \t]*(?=\||\r?\n|$)")
_INSERT = re.compile(r"insert\s+into\s+[\w.`\"\[\]]{1,80}\s*\(([^()]{0,500})$", re.IGNORECASE)
_VALUES = re.compile(r"[^()]{0,500}\)\s*values\s*\(", re.IGNORECASE)
_FIELD = re.compile(
    r"\s*(?:[NEe]?'((?:[^'\n]|''){0,200})'|\"([^\"\n]{0,200})\"|([^,'\"()]{0,100}(?:\([^()]{0,100}\))?))\s*(?:,|\))"
)
_WHERE = re.compile(
    r"=\s{0,3}N?'(?P<value>[^'\n]{4,200})'\s{1,5}where\s{1,5}[\w.\"`]{1,60}\s{0,3}=\s{0,3}'[\w.-]{0,60}$", re.IGNORECASE
)
_BEFORE_IT = re.compile(
    r"(?:^|[\s:(,])[\"'`„“«]?(?P<value>[^\s\"'`„“«»]{5,64})[\"'`”“»]?[ \t]"
    r"(?:(?:is|was) (?:the|our|my|your|his|her|their)|as(?: (?:the|our|my|your|a))?|(?:ist|war) (?:das|unser|mein|dein|ihr)|for (?:the|our|my|your)|für (?:das|den|die)|pour (?:le|la)|als(?: (?:das|unser|mein|dein|ihr))?|est (?:le|mon|ton|notre|votre)|comme)"
    r"[ \t](?:[\w'’-]{1,20}[ \t]){0,2}[\w-]{0,20}$"
)
_BEFORE_KANJI = re.compile(
    r"(?:^|[^!-~])[\"'`]?(?P<value>[!-~]{5,64}?)[\"'`]?[」”』]?[ ]?(?:[がはを]|是|为|為|作为|作為|用作|当作|當作|做)[^\s!-~、。，；]{0,14}$"
)
_SECRET_BEFORE = re.compile(
    r"(?:^|[\s:(,])[\"'`„“«]?(?P<value>[A-Za-z0-9+/_.=-]{20,200})[\"'`”“»]?[ \t]"
    r"(?:(?:is|was) (?:the|our|my|your|his|her|their)|(?:as|for) (?:the|our|my|your|a|an)|(?:ist|war|als) (?:das|der|unser|mein|dein|ihr)|est (?:le|la|mon|ton|notre|votre)|as|als|comme)"
    r"[ \t](?:[\w-]{1,20}[ \t]){0,2}[\w-]{0,20}$"
)
_JUST_BEFORE = re.compile(
    r"(?:^|[\s\"'`„“«])(?:[\w.@-]{1,40}[:/])?(?P<value>[^\s\"'`„“«»”<>|:/]{6,64})[\"'`”»]?[ \t](?:as |als |comme )?(?:[\w-]{1,20}[ \t])?\(?$"
)
_SIGNS = re.compile(r"[@#$%^&*+~!?]")
_TIE = re.compile(r" (?:is|was|as|for|ist|war|als|für|est|comme|pour) ")
_MARKS_OF_CSV = frozenset(",;\t\n\r")
_COLUMN = re.compile(r"[^\n,;\t\"']{0,40}")


def find_around(text: str, start: int, end: int, kind: str) -> Iterator[Find]:
    """Passwords or secrets that belong to the word at `start` to `end` but are not right after it."""
    line = text.rfind("\n", max(0, start - 500), start) + 1
    before = text[max(line, start - 500) : start]
    where = _WHERE.search(before[-300:]) if "'" in before else None
    if where is not None:
        at = start - len(before[-300:])
        yield from _checked(text, at + where.start("value"), at + where.end("value"), "equal", kind)
    if kind != "password":
        match = _SECRET_BEFORE.search(before[-160:]) if _TIE.search(before[-60:]) else None
        if match is not None:
            at = start - len(before[-160:])
            yield from _checked(text, at + match.start("value"), at + match.end("value"), "colon", kind)
        return
    if "|" in before or text[end : end + 40].lstrip(" `*\"'_abcdefghijklmnopqrstuvwxyz")[:1] == "|":
        yield from _under(text, before.count("|"), start)
    if "(" in before:
        yield from _inserted(text, before, start)
    if text[end : end + 1] in _MARKS_OF_CSV or text[start - 1 : start] in _MARKS_OF_CSV:
        yield from _in_columns(text, line, start, end)
    match = _BEFORE_IT.search(before[-120:]) if _TIE.search(before[-60:]) else None
    just = _JUST_BEFORE.search(before[-100:]) if match is None and _SIGNS.search(before[-80:]) else None
    if just is not None and is_obvious(just["value"]):
        at = start - len(before[-100:])
        yield Find("password", at + just.start("value"), at + just.end("value"))
    if match is None and not before.isascii():
        match = _BEFORE_KANJI.search(before[-120:])
    if match is not None:
        at = start - len(before[-120:])
        yield from _checked(text, at + match.start("value"), at + match.end("value"), "space")


def _under(text: str, column: int, start: int) -> Iterator[Find]:
    """Cells of a Markdown table column, below its header."""
    below = (
        text.find("\n", start, start + _MAX_HEAD) + 1
    )  # bounded: a text may repeat `password |` on one line 11,000 times
    row = _DELIMITERS.match(text, below) if below else None
    for _ in range(_MAX_ROWS):
        row = _LINE.match(text, row.end()) if row else None
        if row is None or "|" not in row[0] or _DELIMITERS.match(text, row.start()):
            return  # end of the table, or start of the next one
        at = row.start()
        for _ in range(column):
            at = text.find("|", at, row.end()) + 1
            if at == 0:
                return
        cell = _CELL.match(text, at)
        if cell is not None:
            yield from _checked(text, cell.start(1), cell.end(1), "column")


def _in_columns(text: str, line: int, start: int, end: int) -> Iterator[Find]:
    """Values of a column in text separated by commas, semicolons or tabs."""
    stop = text.find("\n", end, end + 300)
    head = text[line:stop].rstrip("\r") if stop >= 0 and start - line < 300 else ""
    mark = next((mark for mark in ",;\t" if mark in head), "")
    if not mark or any(_COLUMN.fullmatch(cell) is None or len(cell.split()) > 3 for cell in _cells(head, mark)):
        return
    column, columns = text.count(mark, line, start), head.count(mark)
    row = _LINE.match(text, stop + 1)
    for _ in range(_MAX_ROWS):
        if row is None or row[0].count(mark) != columns:
            return
        cell = _cells(row[0], mark)[column]
        at = row.start() + sum(len(before) + 1 for before in _cells(row[0], mark)[:column])
        value = cell.strip("\"' \r\n")
        if value:
            first = at + cell.index(value)
            yield from _checked(text, first, first + len(value), "column")
        row = _LINE.match(text, row.end()) if row.end() < len(text) else None


def _cells(line: str, mark: str) -> list[str]:
    return line.split(mark)


def _inserted(text: str, before: str, start: int) -> Iterator[Find]:
    """Value of the column in `INSERT INTO users (name, password) VALUES ('bob', '...')`."""
    insert = _INSERT.search(before)
    values = _VALUES.match(text, start) if insert else None
    if insert is None or values is None:
        return
    at = values.end()
    for _ in range(insert[1].count(",")):
        field = _FIELD.match(text, at)
        if field is None:
            return
        at = field.end()
    field = _FIELD.match(text, at)
    if field is not None and field.lastindex in (1, 2):
        yield from _checked(text, *field.span(field.lastindex), "equal")


def _checked(text: str, start: int, end: int, link: str, kind: str = "password") -> Iterator[Find]:
    while end > start and text[end - 1] in ".,;:":
        end -= 1
    value = Value(text[start:end], link, quoted=link == "equal", alone=True, tight=False, config=False)
    if is_password(value) if kind == "password" else is_secret(value):
        yield Find(kind, start, end)
