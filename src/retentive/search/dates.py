"""Dates in texts, converted to one form, so that a search for `May 7` also finds `2023-05-07` and `07.05.2023`.

The index stores up to three tokens for each date: `§0507` for the day and, if the year is known, `§20230507` and
`§202305`. They start with `§`, so no word of a text equals them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_MONTHS = {
    name: number
    for row in (
        "january february march april may june july august september october november december",
        "jan feb mar apr mai jun jul aug sep oct nov dec",
        "januar februar märz april mai juni juli august september oktober november dezember",
        "jänner feber mrz apr mayo juin juil août sept okt nov dez",
        "janvier février mars avril mai juin juillet aout septembre octobre novembre décembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    )
    for number, name in enumerate(row.split(), 1)
}
_NUMBER = re.compile(r"[0-9]+")
# The first number of a date is preceded by a space, or followed by a letter or one of these characters.
_AFTER = "-/. "
_ISO = re.compile(r"([0-9]{4})[-/.]([0-9]{1,2})[-/.]([0-9]{1,2})(?![0-9])")
_DOTTED = re.compile(r"([0-9]{1,2})([./]) ?([0-9]{1,2})\2 ?([0-9]{4})(?![0-9])")
_CJK = re.compile(r"(?:([0-9]{4}) ?[年년] ?)?([0-9]{1,2}) ?[月월](?: ?([0-9]{1,2}) ?[日일])?")
_MONTH_AFTER = re.compile(
    r"(?:st|nd|rd|th|er|º|\.)? ?(?:of |de |d')?([^\W\d_]{3,10})\.?(?:,? (?:de |del )?([0-9]{4})(?![0-9]))?"
)
_MONTH_BEFORE = re.compile(r"([^\W\d_]{3,10})\.?,? (?:de |del )?(?:the )?\Z")
_YEAR_AFTER = re.compile(r"(?:st|nd|rd|th)?,? ([0-9]{4})(?![0-9])")
_LONGEST = 20  # maximum characters between the start of the name of a month and the number after it
_ENDINGS = {name[-3:] for name in _MONTHS} | {" de", "del", "the"}
_LINKS = ".,"  # characters that may follow the name of a month, as in `May, 7`


class FoundDate(NamedTuple):
    """A date in a text: its position, and its tokens, the most exact first."""

    start: int
    end: int
    tokens: tuple[str, ...]


def dates(text: str) -> Iterator[FoundDate]:
    """Yield the dates in a text, in order."""
    last = 0
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        if start < last or end - start > 4:
            continue
        before, after = text[start - 1] if start else "\n", text[end : end + 1]
        if before != " " and (before.isalnum() or before in "_." or not (after.isalpha() or after in _AFTER)):
            continue
        found = _found(text, start, end)
        if found is not None:
            last = found.end
            yield found


def _found(text: str, start: int, end: int) -> FoundDate | None:
    if text[end : end + 1] in "-/.":
        if iso := _ISO.match(text, start):
            return _date(start, iso.end(), iso[1], iso[2], iso[3])
        if dotted := _DOTTED.match(text, start):
            is_day_first = dotted[2] == "." or int(dotted[3]) <= 12
            day, month = (dotted[1], dotted[3]) if is_day_first else (dotted[3], dotted[1])
            return _date(start, dotted.end(), dotted[4], month, day)
    if not text.isascii() and (cjk := _CJK.match(text, start)):
        return _date(start, cjk.end(), cjk[1], cjk[2], cjk[3])
    after = _MONTH_AFTER.match(text, end) if end - start <= 2 else None
    if after and (month_number := _MONTHS.get(after[1].casefold())):
        return _date(start, after.end(), after[2], month_number, text[start:end])
    return _after_month(text, start, end)


def _after_month(text: str, start: int, end: int) -> FoundDate | None:
    if text[start - 1 : start] != " ":
        return None
    ending = text[start - 4 : start - 1] if start > 3 else ""
    if ending[-1:] not in _LINKS and ending.casefold() not in _ENDINGS:  # no month; skip the slow search below
        return None
    before = _MONTH_BEFORE.search(text, max(start - _LONGEST, 0), start)
    month = _MONTHS.get(before[1].casefold()) if before else None
    if before is None or month is None:
        return None
    if end - start == 4:
        return _date(before.start(), end, text[start:end], month, None)
    year = _YEAR_AFTER.match(text, end)
    return _date(before.start(), year.end() if year else end, year and year[1], month, text[start:end])


def _date(start: int, end: int, year: str | None, month: str | int, day: str | None) -> FoundDate | None:
    number = int(month)
    if not 1 <= number <= 12 or (day is not None and not 1 <= int(day) <= 31) or (year and not "1000" <= year < "3000"):
        return None
    names = []
    if day is not None:
        names = [f"§{number:02}{int(day):02}"]
    if year:
        names = [*(f"§{year}{name[1:]}" for name in names), f"§{year}{number:02}", *names]
    return FoundDate(start, end, tuple(names)) if names else None
