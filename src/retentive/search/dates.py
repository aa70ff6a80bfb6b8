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
_YEAR = r"(?:[12][0-9]{3})(?![0-9])"
_DATE = re.compile(
    rf"(?P<y1>[12][0-9]{{3}})[-/.](?P<m1>[0-9]{{1,2}})[-/.](?P<d1>[0-9]{{1,2}})(?![0-9])"
    rf"|(?P<d2>[0-9]{{1,2}})(?P<sign>[./]) ?(?P<m2>[0-9]{{1,2}})(?P=sign) ?(?P<y2>{_YEAR})"
    rf"|(?:(?P<y3>[12][0-9]{{3}}) ?[年년] ?)?(?P<m3>[0-9]{{1,2}}) ?[月월](?: ?(?P<d3>[0-9]{{1,2}}) ?[日일])?"
    rf"|(?P<d4>[0-9]{{1,2}})(?:st|nd|rd|th|er|º|\.)? ?(?:of |de |d')?(?P<name>[^\W\d_]{{3,10}})\.?"
    rf"(?:,? (?:de |del )?(?P<y4>{_YEAR}))?"
)
_MONTH_BEFORE = re.compile(r"([^\W\d_]{3,10})\.?,? (?:de |del )?(?:the )?\Z")
_YEAR_AFTER = re.compile(rf"(?:st|nd|rd|th)?,? ({_YEAR})")
_LONGEST = 20  # maximum characters between the start of the name of a month and the number after it
_ENDINGS = {name[-3:] for name in _MONTHS} | {" de", "del", "the"}


class FoundDate(NamedTuple):
    """A date in a text: its position, and its tokens, the most exact first."""

    start: int
    end: int
    tokens: tuple[str, ...]


def dates(text: str) -> Iterator[FoundDate]:
    """Yield the dates in a text, in order."""
    last = 0
    for number in _NUMBER.finditer(text):
        start, end = number.span()
        if start < last or end - start > 4:
            continue
        before, after = text[start - 1] if start else "\n", text[end : end + 1]
        # The first number of a date is behind a space, or before a letter or one of the signs of dates.
        if before != " " and (before.isalnum() or before in "_." or not (after.isalpha() or after in "-/. ")):
            continue
        match = _DATE.match(text, start)
        found = None if match is None else _from_number(match)
        found = found or _after_month(text, start, end)
        if found is not None:
            last = found.end
            yield found


def _from_number(match: re.Match[str]) -> FoundDate | None:
    """Return the date that begins with a number: `2023-05-07`, `07.05.2023`, `5月7日`, `7 May 2023`."""
    if match["name"]:  # first, since most numbers are before a word
        named = _MONTHS.get(match["name"].casefold())
        return None if named is None else _date(*match.span(), match["y4"], named, match["d4"])
    year, month, day = ((match[f"{part}1"] or match[f"{part}2"] or match[f"{part}3"]) for part in "ymd")
    if match["sign"] == "/" and int(month) > 12:  # the month first
        day, month = month, day
    return _date(*match.span(), year, int(month), day)


def _after_month(text: str, start: int, end: int) -> FoundDate | None:
    """Return the date whose number follows the name of a month: `May 7, 2023`, `May 2023`."""
    ending = text[start - 4 : start - 1] if text[start - 1 : start] == " " and start > 3 else ""
    if ending[-1:] not in {".", ","} and ending.casefold() not in _ENDINGS:  # no month; skip the slow search below
        return None
    before = _MONTH_BEFORE.search(text, max(start - _LONGEST, 0), start)
    month = _MONTHS.get(before[1].casefold(), 0) if before else 0
    if before is None or not month:
        return None
    if end - start == 4:
        return _date(before.start(), end, text[start:end], month, None)
    year = _YEAR_AFTER.match(text, end)
    return _date(before.start(), year.end() if year else end, year and year[1], month, text[start:end])


def _date(start: int, end: int, year: str | None, month: int, day: str | None) -> FoundDate | None:
    if not 1 <= month <= 12 or (day and not 1 <= int(day) <= 31) or (year and not "1000" <= year < "3000"):
        return None
    names = [f"§{month:02}{int(day):02}"] if day else []
    if year:
        names = [*(f"§{year}{name[1:]}" for name in names), f"§{year}{month:02}", *names]
    return FoundDate(start, end, tuple(names)) if names else None
