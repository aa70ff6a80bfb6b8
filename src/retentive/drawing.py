"""A picture of a memory store's figures, as SVG: a calendar of activity, size over time, the biggest memories.

Plain shapes and text without scripts, fonts or links; it takes the colours of a light or a dark page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from xml.sax.saxutils import escape, quoteattr

from retentive.stats import Day, Sized, Stats
from retentive.values.listing import human_size

WIDTH, HEIGHT = 860, 440
_WEEKS = 53
_LEFT, _CELL, _STEP = 56, 11, 14
_CALENDAR_TOP, _CHART_TOP, _CHART_HEIGHT, _BARS_TOP = 72, 200, 110, 350
_CHART_WIDTH = _WEEKS * _STEP - (_STEP - _CELL)
_BARS, _BAR_STEP, _BAR_WIDTH = 5, 18, 240
_MAX_NAME_CHARS = 60
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STYLE = """\
  svg { color: #1f2328; font: 12px system-ui, sans-serif; }
  text { fill: currentColor; } .small { font-size: 10px; opacity: .75; } .head { font-size: 15px; font-weight: 600; }
  .l0 { fill: currentColor; opacity: .1; } .l1, .l2, .l3, .l4, .area { fill: #1a7f37; }
  .l1 { opacity: .35; } .l2 { opacity: .55; } .l3 { opacity: .75; } .area { opacity: .15; }
  .line { fill: none; stroke: #1a7f37; stroke-width: 1.5; }
  .axis { stroke: currentColor; opacity: .3; }
  @media (prefers-color-scheme: dark) {
    svg { color: #e6edf3; } .l1, .l2, .l3, .l4, .area { fill: #3fb950; } .line { stroke: #3fb950; }
  }"""


def picture(stats: Stats) -> str:
    """The SVG document, well-formed XML in UTF-8."""
    start = _first_monday(stats.days[-1].day)
    days = [day for day in stats.days if day.day >= start]
    name = stats.key or stats.store_id
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">',
        f'<title id="title">Memory store {_text(name)}</title>',
        f'<desc id="desc">{_text(_described(stats, days))}</desc>',
        f"<style>\n{_STYLE}\n</style>",
        f'<text class="head" x="{_LEFT}" y="24">{_text(name)}</text>',
        f'<text class="small" x="{_LEFT}" y="42">{_text(_described(stats, days))}</text>',
        *_calendar(days, start),
        *_chart(days),
        *_bars(stats.biggest[:_BARS]),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _described(stats: Stats, days: Sequence[Day]) -> str:
    changes = sum(day.changes for day in days)
    held = f"{stats.memories} memories of {human_size(stats.size_bytes)}, {stats.versions} versions"
    return f"{held}; {changes} changes from {days[0].day} to {days[-1].day}"


def _text(text: str) -> str:
    """Text as it may stand in XML; what no XML can hold is replaced."""
    return escape(_NOT_XML.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text))


# -- the calendar ------------------------------------------------------------------------------------------------


def _first_monday(today: date) -> date:
    """Where a calendar of 53 weeks that ends with this one begins."""
    return today - timedelta(days=today.weekday() + (_WEEKS - 1) * 7)


def _calendar(days: Sequence[Day], start: date) -> Iterator[str]:
    """A column for each week from Monday, a square for each day."""
    most = max(day.changes for day in days)
    yield '<g class="calendar">'
    for row, weekday in ((0, "Mon"), (2, "Wed"), (4, "Fri")):
        y = _CALENDAR_TOP + row * _STEP + _CELL - 2
        yield f'<text class="small" x="{_LEFT - 8}" y="{y}" text-anchor="end">{weekday}</text>'
    yield from _months(start)
    for day in days:
        week, weekday_number = divmod((day.day - start).days, 7)
        x, y = _LEFT + week * _STEP, _CALENDAR_TOP + weekday_number * _STEP
        told = f"{day.day}: {day.created} created, {day.modified} modified, {day.deleted} deleted"
        yield (
            f'<rect class="l{_level(day.changes, most)}" x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" rx="2"'
            f' data-day="{day.day}" data-changes="{day.changes}"><title>{told}</title></rect>'
        )
    yield "</g>"


def _months(start: date) -> Iterator[str]:
    """The name of a month over the week in which it begins."""
    for week in range(_WEEKS):
        monday = start + timedelta(weeks=week)
        first = next((day for day in (monday + timedelta(days=n) for n in range(7)) if day.day == 1), None)
        if first is not None:
            x, name = _LEFT + week * _STEP, _MONTHS[first.month - 1]
            yield f'<text class="small" x="{x}" y="{_CALENDAR_TOP - 6}">{name}</text>'


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _level(changes: int, most: int) -> int:
    """0 for none, 1 to 4 by the share of the busiest day."""
    return 0 if not changes else -(-4 * changes // most)


# -- size over time ----------------------------------------------------------------------------------------------


def _chart(days: Sequence[Day]) -> Iterator[str]:
    most = max(1, *(day.size_bytes for day in days))
    bottom, steps = _CHART_TOP + _CHART_HEIGHT, max(len(days) - 1, 1)
    across = [_LEFT + _CHART_WIDTH * number / steps for number in range(len(days))]
    heights = [bottom - _CHART_HEIGHT * day.size_bytes / most for day in days]
    points = [f"{x:.1f},{y:.1f}" for x, y in zip(across, heights, strict=True)]
    last, right = days[-1].size_bytes, _LEFT + _CHART_WIDTH
    yield f'<g class="size" data-most="{most}" data-last="{last}">'
    yield f"<title>Size over time: {human_size(last)} now, {human_size(most)} at most</title>"
    yield f'<polygon class="area" points="{_LEFT},{bottom} {" ".join(points)} {right},{bottom}"/>'
    yield f'<polyline class="line" points="{" ".join(points)}"/>'
    yield f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>'
    yield f'<text class="small" x="{_LEFT - 8}" y="{_CHART_TOP + 8}" text-anchor="end">{human_size(most)}</text>'
    yield f'<text class="small" x="{_LEFT - 8}" y="{bottom}" text-anchor="end">0B</text>'
    yield f'<text class="small" x="{_LEFT}" y="{bottom + 14}">{days[0].day}</text>'
    yield f'<text class="small" x="{right}" y="{bottom + 14}" text-anchor="end">{days[-1].day}</text>'
    yield "</g>"


# -- the biggest memories ----------------------------------------------------------------------------------------


def _bars(biggest: Sequence[Sized]) -> Iterator[str]:
    yield '<g class="biggest">'
    most = max((one.size_bytes for one in biggest), default=1) or 1
    for number, one in enumerate(biggest):
        y = _BARS_TOP + number * _BAR_STEP
        name = one.path if len(one.path) <= _MAX_NAME_CHARS else one.path[: _MAX_NAME_CHARS - 1] + "…"
        width = f"{_BAR_WIDTH * one.size_bytes / most:.1f}"
        yield f'<text class="small" x="{_LEFT - 8}" y="{y + 9}" text-anchor="end">{human_size(one.size_bytes)}</text>'
        yield (
            f'<rect class="l3" x="{_LEFT}" y="{y}" width="{width}" height="{_CELL}" rx="2"'
            f" data-path={_attribute(one.path)}/>"
        )
        yield f'<text x="{_LEFT + _BAR_WIDTH + 10}" y="{y + 10}">{_text(name)}</text>'
    yield "</g>"
