"""Detector of sensitive values: vendor keys and tokens, private keys, passwords, card and identity numbers.

One pass over a text and over views of it that undo disguises. In each, a few combined patterns (RE2, if installed) seek
candidates; only there the exact rules run. A find is certain (a form that nothing else has) or likely (its context
suggests it). Nothing here does I/O or stores text.
"""

from __future__ import annotations

import bisect
import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter

from retentive.errors import InvalidInput
from retentive.redaction.kinds import KINDS, SPECIFIC_LAST
from retentive.redaction.rules import NAME, Find, Kind, Rule
from retentive.redaction.search import MAX_JUDGED, Budget, Scanned, Search, alternatives
from retentive.redaction.views import decoded, plain, unwrapped

__all__ = ["KINDS", "Detector", "Find", "Kind", "Rule"]

_MARKER = re.compile(r"\[(?i:REDACTED(?::[a-z][a-z0-9_-]{0,39})?)\]")
_BOUNDARY = r"(?:\A|[^0-9A-Za-z]|\\[nrt]|%[0-9A-Fa-f]{2}|bot)"
_LEADS = re.compile(r"\\[nrt]|%[0-9A-Fa-f]{2}|bot|[^0-9A-Za-z]|")
_BEFORE_SIGN = {":": re.compile(r"[\w.$-]{0,41}"), "|": re.compile(r" ?['\"]?[^\s'\"]*")}
_ALNUM = re.compile("[0-9A-Za-z]")
MIN_HEAD = 6  # characters of a token before a line break
MAX_TOKEN = 8_000  # characters
MAX_VAGUE = 3  # characters: a token that starts with so few is always judged
MAX_TOKENS = 1_000  # tokens in a text that are found one by one
MAX_CERTAIN = 2_000  # places for private keys, URLs and headers
# In bulk, a value has a digit or is long. Values with nothing but signs and names between them are one find.
_BULK_NAMES = (
    "passw|passphrase|passcode|kennwort|contrase|senha|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|accountkey"
    "|credential|_auth|密码|密碼|パスワード"
)
_BULK_VALUE = "(?:[^\\s\"'`]{5}[^\\s\"'`0-9]*[0-9]|[^\\s\"'`0-9]{0,4}[0-9][^\\s\"'`]{5}|[^\\s\"'`]{20})[^\\s\"'`]*"
_BULK = (
    rf"(?:{_BULK_NAMES})[a-z0-9_.\[\]-]*[\"'`*]*[ \t]*(?::=|=>|[:=,>(：]|is |是)[ \t]*[\"'`]?{_BULK_VALUE}"
    r"|://[^\s/@\"'`<>:]*:[^\s/@\"'`<>]{3}[^\s/@\"'`<>]*@|(?:bearer|basic|authorization:)[ \t]+[^\s\"'`]{16}[^\s\"'`]*"
    r"|-----begin [a-z0-9 ]*private key[^-]*-----[a-z0-9+/=\\\s]{40}(?:[a-z0-9+/=\\\s])*(?:-----end [a-z0-9 ]*-----)?"
)
_RUNS = rf"(?:{_BULK})(?:[\s\"'`,;&|(){{}}\[\]<>]*[a-z0-9_.$+-]*(?:{_BULK}))*"
_VALUE_OF_RUN = re.compile(
    r"(?:=>|[:=,>(：]+|is |是|bearer|basic|-----begin)[ \t]*[\"'`]?(?://[^:\s]*:)?([^\s=:>,(].*)",
    re.DOTALL,
)
_MAX_PASSES = 3  # a marker can complete a context for its neighbour; later passes find nothing in practice


class Detector:
    """Finds sensitive values of the given kinds, and those of an application's own rules and functions.

    `kinds` are names from `KINDS` (default: the kinds that are on by default). `rules` add patterns. `detectors` are
    functions that return finds. Raises `InvalidInput` for an unknown kind or an invalid pattern. Threads may share a
    detector. Patterns are compiled at first use.
    """

    def __init__(
        self,
        kinds: Collection[str] | None = None,
        rules: Sequence[Rule] = (),
        detectors: Sequence[Callable[[str], Iterable[Find]]] = (),
        *,
        with_re2: bool | None = None,
    ) -> None:
        self._kinds = _known(kinds)
        self._rules, self._detectors, self._with_re2 = tuple(rules), tuple(detectors), with_re2
        for rule in self._rules:
            _ = rule.compiled

    def find(self, text: str, *, in_path: bool = False) -> list[Find]:
        """The sensitive values in a text, in order and without overlaps. `in_path`: numbers need no context."""
        finds = [find for find in self._built_in(text, in_path=in_path) if find.kind in self._kinds]
        finds += self._by_rules(text)
        return _without_overlaps(_outside(finds, text) if "[" in text else finds)

    def redact(self, text: str) -> tuple[str, list[str]]:
        """Replace every value by `[REDACTED:{kind}]`; return the new text and the kinds, in order."""
        kinds: list[str] = []
        for _ in range(_MAX_PASSES):
            finds = self.find(text)
            if not finds:
                break
            text = replaced(text, finds)
            kinds += [find.kind for find in finds]
        return text, kinds

    def _built_in(self, text: str, *, in_path: bool) -> Iterator[Find]:
        if not self._kinds:
            return
        engine = _engine(self._with_re2)
        seen, view = plain(text)
        scanned = Scanned(seen)
        left = Limits(bounded={"password", "secret"} <= self._kinds)
        found = list(
            engine.find(scanned, left, in_path=in_path, contacts=not self._kinds.isdisjoint({"email", "phone"}))
        )
        for find in [*found, *engine.encoded(scanned, found, left)]:
            yield find if view is None else Find(find.kind, *view.span(find.start, find.end), likely=find.likely)

    def _by_rules(self, text: str) -> Iterator[Find]:
        for rule in self._rules:
            if rule.starts and not rule.ignore_case and not any(part in text for part in rule.starts):
                continue
            yield from filter(None, map(rule.to_find, rule.compiled.finditer(text)))
        for detector in self._detectors:
            for find in detector(text):
                if not (0 <= find.start < find.end <= len(text) and NAME.fullmatch(find.kind)):
                    raise InvalidInput("a detector returned a find outside the text or with an invalid kind name")
                yield find


def replaced(text: str, finds: Iterable[Find]) -> str:
    """The text with `[REDACTED:{kind}]` for each find."""
    parts, at = [], 0
    for find in finds:
        parts += [text[at : find.start], f"[REDACTED:{find.kind}]"]
        at = find.end
    return "".join([*parts, text[at:]])


class Limits:
    """What may be judged one by one in a text: tokens, places for certain values, and other places."""

    def __init__(self, *, bounded: bool = True) -> None:
        self.tokens, self.wraps, self.certain, self.places = (
            Budget(limit if bounded else math.inf) for limit in (MAX_TOKENS, MAX_TOKENS, MAX_CERTAIN, MAX_JUDGED)
        )


class _Engine:
    """The built-in rules, compiled. The order in `find` is that of the cost, not of precedence."""

    def __init__(self, with_re2: bool | None) -> None:
        from retentive.redaction import (  # noqa: PLC0415 - compiled at first use
            checks,
            contacts,
            forms,
            named,
            numbers,
            tables,
            vendors,
        )

        def search(pattern: str, then: str = "", *, lower: bool = True) -> Search:
            return Search(pattern, then, lower=lower, with_re2=with_re2)

        self._find_in_table, self._find_contacts = tables.find_in_table, contacts.find_contacts
        self._find_numbers, self._is_strong = numbers.find_numbers, checks.is_strong
        self._rows = [(row[0], checks.CHECKS[row[3]]) for row in vendors.VENDORS]
        rows_of: dict[str, list[str]] = {}
        firsts: dict[str, list[str]] = {}
        for number, (_, starts, rest, *_) in enumerate(vendors.VENDORS):
            for two in {start[:2] for start in starts.split()}:
                rows_of.setdefault(two, []).append(f"(?P<r{number}>{alternatives(starts.split())}{rest})")
            for start in starts.split():
                firsts.setdefault(start, []).append(_first_of(rest))
        self._vendors = {two: re.compile("|".join(rows)) for two, rows in rows_of.items()}
        heads = alternatives({start: f"(?:{'|'.join(rests)})" for start, rests in firsts.items()})
        self._seek_vendor = search(_BOUNDARY + heads, lower=False)
        self._seek_wrapped = search(
            f"{_BOUNDARY}{alternatives([*firsts])}[A-Za-z0-9._/+=-]+[ \\t]*\\r?\\n", lower=False
        )
        self._starts = re.compile(alternatives([*firsts]))
        self._kinds = {start: row[0] for row in vendors.VENDORS for start in row[1].split()}
        token = f"{alternatives([*firsts])}[A-Za-z0-9._/+=~-]{{10}}[A-Za-z0-9._/+=~-]*"
        self._seek_tokens = search(f"{_BOUNDARY}{token}(?:[\\s\"'`,;|:=]+{token})*", lower=False)

        self._infix_rows = [(row[0], checks.CHECKS[row[3]]) for row in vendors.INFIXES]
        infixes = "|".join(f"(?P<r{number}>{row[2]})" for number, row in enumerate(vendors.INFIXES))
        self._infix = re.compile(rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:{infixes})(?![A-Za-z0-9])")
        infix = "|".join(row[1] for row in vendors.INFIXES)
        self._seek_infix = search(f"(?:{infix})(?:[!-~]{{0,8}}(?:{infix}))*", lower=False)

        self._compiled = [
            (kind, re.compile(pattern, re.IGNORECASE if any_case else 0), checks.CHECKS[check])
            for kind, _, pattern, check, any_case in forms.FORMS
        ]
        self._seek_forms = [
            search("|".join(row[1] for row in forms.FORMS if row[4] is any_case), lower=any_case)
            for any_case in (False, True)
        ]
        self._seek_numbers = search(
            f"(?:\\A|[^0-9A-Za-z_\\\\]|\\\\[nrt])(?:{numbers.CARD}|{numbers.IBAN}|{numbers.SSN})", lower=False
        )
        self._seek_contacts = search(contacts.SEEK_CONTACTS, lower=False)
        self._by_context = (
            *((search(*seek), named.find_named) for seek in named.SEEKS),
            (search(named.SEEK_BEFORE), named.find_before),
            (search(*named.SEEK_PAIR), named.find_pair),
            (search(contacts.SEEK_SEEDS), contacts.find_seeds),
            (search(tables.SEEK_INSERT), tables.find_in_insert),
        )
        self._seek_tables = search(tables.SEEK_TABLE)
        self._seek_runs = search(_RUNS)

    def find(self, scanned: Scanned, left: Limits, *, in_path: bool = False, contacts: bool = False) -> Iterator[Find]:
        """The finds in a text as it stands. `left`: the number of places that may be judged one by one."""
        text, judged = scanned.text, len(scanned.text)
        yield from self._by_vendor(scanned, left)
        yield from self._by_infix(scanned)
        yield from self._in_two_lines(scanned, left)
        for start, end in self._seek_numbers.spans(scanned):
            yield from self._find_numbers(text, start, end, in_path=in_path)
        if contacts:
            for start, end in self._seek_contacts.spans(scanned):
                yield from self._find_contacts(text, start, end)
        by_form = ((search, self._by_form, left.certain) for search in self._seek_forms)
        by_context = ((search, finder, left.places) for search, finder in self._by_context)
        for search, finder, places in (*by_form, *by_context):
            for start, end in search.spans(scanned):
                if not places.take():
                    judged = min(judged, start)
                    break
                yield from finder(text, start, end)
        yield from self._by_table(scanned, left)
        if judged < len(text):
            yield from self._in_bulk(text, judged)

    def _by_table(self, scanned: Scanned, left: Limits) -> Iterator[Find]:
        reach = [0]
        for start, end in self._seek_tables.spans(scanned, reach):
            if start >= reach[0]:
                if not left.places.take():
                    break
                finds, reach[0] = self._find_in_table(scanned.text, start, end, left.places)
                yield from finds

    def _in_bulk(self, text: str, judged: int) -> Iterator[Find]:
        """The certain values after the places that were judged: a find for each run of assignments."""
        rest = Scanned(text[judged:])
        for start, end in self._seek_runs.spans(rest):
            value = _VALUE_OF_RUN.search(rest.lower, start, end)
            if value is not None:
                yield Find("password", judged + value.start(1), judged + end)

    def encoded(self, scanned: Scanned, found: Sequence[Find], left: Limits) -> Iterator[Find]:
        """Pieces that are URL-encoded or base64 and hold a certain find, unless it shows without decoding."""
        view = decoded(scanned.text)
        if view is None:
            return
        starts = sorted(find.start for find in found)
        for find in self.find(Scanned(view.text), left):
            start, end = view.span(find.start, find.end)
            shows = bisect.bisect_left(starts, end) > bisect.bisect_left(starts, start)
            if not find.likely and not shows:
                yield Find(find.kind, start, end)

    def _by_vendor(self, scanned: Scanned, left: Limits) -> Iterator[Find]:
        text, reach = scanned.text, [0]
        for start, end in self._seek_vendor.spans(scanned, reach):
            if start < reach[0]:
                continue
            find, reach[0] = self._vendor_in(text, start, end)
            if find is not None:
                if not left.tokens.take():
                    yield from self._tokens_in_bulk(text, start)
                    return
                yield find

    def _in_two_lines(self, scanned: Scanned, left: Limits) -> Iterator[Find]:
        """Tokens that one line break splits."""
        for start, end in self._seek_wrapped.spans(scanned):
            if not left.wraps.take():
                break
            head = scanned.text[start:end].rstrip()
            tail, follows = unwrapped(scanned.text, start + len(head))
            find, _ = self._vendor_in(head + tail, 0, len(head))
            if find is not None and find.start + MIN_HEAD <= len(head) < find.end:
                yield Find(find.kind, start + find.start, follows + find.end - len(head))

    def _tokens_in_bulk(self, text: str, judged: int) -> Iterator[Find]:
        """Tokens after many: those with nothing but signs between them are one find."""
        rest = Scanned(text[judged:])
        for start, end in self._seek_tokens.spans(rest):
            lead = _LEADS.match(rest.text, start)
            head = self._starts.match(rest.text, lead.end() if lead else start)
            if head is not None and len(head[0]) > MAX_VAGUE:
                yield Find(self._kinds[head[0]], judged + head.start(), judged + end)
                continue
            for other in self._by_vendor(Scanned(rest.text[start:end]), Limits(bounded=False)):
                yield Find(other.kind, judged + start + other.start, judged + start + other.end)

    def _by_infix(self, scanned: Scanned) -> Iterator[Find]:
        for start, end in self._seek_infix.merged(scanned, 120, 400):
            for match in self._infix.finditer(scanned.text, start, end):
                kind, check = self._infix_rows[int((match.lastgroup or "r0")[1:])]
                if check(match[0]):
                    yield Find(kind, *match.span())

    def _vendor_in(self, text: str, start: int, end: int) -> tuple[Find | None, int]:
        """A token at a candidate, and where to search on: not in what was judged."""
        lead = _LEADS.match(text, start)
        for at in {start, lead.end() if lead else start}:
            rows = self._vendors.get(text[at : at + 2])
            match = rows.match(text, at, at + MAX_TOKEN) if rows is not None else None
            if match is None or match.lastgroup is None:
                continue
            kind, check = self._rows[int(match.lastgroup[1:])]
            stop = match.end() - len(match[0]) + len(match[0].rstrip(".-"))
            if not _ALNUM.match(text, stop) and check(match[0]):
                return Find(kind, at, stop), stop
            end = max(end, match.end())
        return None, end

    def _by_form(self, text: str, start: int, end: int) -> Iterator[Find]:
        if text[start] in ":|" and text[start + 1] != "/":  # sought by the sign after a user name, or after a password
            before = text[max(0, start - 110) : start][::-1]
            start -= _BEFORE_SIGN[text[start]].match(before).end()  # type: ignore[union-attr] # it matches nothing too
        for kind, pattern, check in self._compiled:
            match = pattern.match(text, start)
            if match is None or not check(match["value"]):
                continue
            first, last = match.span("value")
            weak = kind in {"password", "url_password", "connection_string"}
            likely = weak and not self._is_strong(match["value"])
            yield Find(kind, first, last, likely=likely)
            return


def _first_of(rest: str) -> str:
    """Pattern of the first characters of a token. No longer counts: RE2 has a state for each count of each token."""
    first = re.match(r"(\[[^\]]+\]|\\d)\{(\d+)", rest)
    return f"{first[1]}{{{min(int(first[2]), 40)}}}" if first else "[!-~]{8}"


@lru_cache(maxsize=4)
def _engine(with_re2: bool | None) -> _Engine:
    return _Engine(with_re2)


def _known(kinds: Collection[str] | None) -> frozenset[str]:
    if kinds is None:
        return frozenset(name for name, kind in KINDS.items() if kind.on)
    if isinstance(kinds, str):
        raise InvalidInput("kinds must be a collection of names, not a string")
    for name in kinds:
        if name not in KINDS:
            near = difflib.get_close_matches(name, KINDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InvalidInput(
                f"unknown kind of sensitive value {name!r}.{hint} Known kinds: {', '.join(sorted(KINDS))}"
            )
    return frozenset(kinds)


def _outside(finds: Iterable[Find], text: str) -> Iterator[Find]:
    """The finds that overlap no marker."""
    markers = [match.span() for match in _MARKER.finditer(text)]
    starts = [start for start, _ in markers]
    for find in finds:
        before = bisect.bisect_left(starts, find.end)
        if before == 0 or markers[before - 1][1] <= find.start:
            yield find


def _without_overlaps(finds: Iterable[Find]) -> list[Find]:
    """Merge overlapping finds. The merged find has the kind of the most certain, specific, then longest, find."""
    merged: list[Find] = []
    for find in sorted(finds, key=attrgetter("start")):
        if merged and find.start < merged[-1].end:
            last = merged.pop()
            best = min(last, find, key=_rank)
            start, end = (best.start, best.end) if last.likely != find.likely else (last.start, max(last.end, find.end))
            merged.append(Find(best.kind, start, end, likely=best.likely))
        else:
            merged.append(find)
    return merged


def _rank(find: Find) -> tuple[bool, int, int]:
    order = SPECIFIC_LAST.index(find.kind) if find.kind in SPECIFIC_LAST else -1
    return find.likely, order, find.start - find.end
