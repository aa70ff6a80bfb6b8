"""Built-in rules of the detector, compiled.

With RE2, one pass over a text reports which of a few combined patterns match anywhere in the text. After this pass,
only the patterns with a match are used to search for *candidates*: places where a sensitive value may start. The exact
rules run only at candidates.

To limit the time for a long text, only a limited number of candidates are checked one by one. Values after these
candidates are found *in bulk*: by a coarser pattern that can cover many values in one match.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from retentive.redaction import contacts, cookies, forms, named, numbers, tables, vendors
from retentive.redaction.checks import CHECKS, is_strong
from retentive.redaction.rules import Find
from retentive.redaction.search import Budget, Limits, Prefilter, Scanned, Search, alternatives
from retentive.redaction.views import SEEK_BASE64, decoded, unwrapped

_BOUNDARY = r"(?:\A|[^0-9A-Za-z]|\\[nrt]|%[0-9A-Fa-f]{2}|bot)"
_LEADS = re.compile(r"\\[nrt]|%[0-9A-Fa-f]{2}|bot|[^0-9A-Za-z]|")
_BEFORE_SIGN = {":": re.compile(r"[\w.$-]{0,41}"), "|": re.compile(r" ?['\"]?[^\s'\"]*")}
_ALNUM = re.compile("[0-9A-Za-z]")
MIN_HEAD = 6  # minimum characters of a token that are before a line break in it
MAX_TOKEN = 8_000  # maximum characters of a token
MAX_VAGUE = 3  # characters; a token with so short a prefix is checked by the exact rules even in bulk
# In bulk, a value must contain a digit or be long. Values with only punctuation and names between them form one match.
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
# A text with one of these can have a match that depends on text at any distance: on other lines of a private key or of
# base64, on the heading of a table, on the start of an INSERT, or on the word before a recovery phrase.
_BASE64 = "[a-z0-9+/_-]{24}"
_FAR = (
    rf"private(?: |%20)key|private-lines|{tables.INSERT_HINT}+into[ \n]|{tables.SEEK_TABLE}|{contacts.SEEK_SEEDS}"
    rf"|(?:\A|[^0-9a-z_\\]|\\[nrt])(?:{numbers.CARD}|{numbers.SSN})"
    rf"|{_BASE64}[^a-z0-9+/_\n-]{{0,10}}\n[^a-z0-9+/_-]{{0,16}}{_BASE64}"
)


class BuiltInRules:
    """The built-in rules, compiled. `find` runs the fastest rules first."""

    def __init__(self, with_re2: bool | None) -> None:
        self._with_re2 = with_re2
        self._searches: list[Search] = []
        self._compile_vendors()
        self._compile_infixes()
        self._compile_forms()
        self._seek_numbers = self._search(
            f"(?:\\A|[^0-9A-Za-z_\\\\]|\\\\[nrt])(?:{numbers.CARD}|{numbers.IBAN}|{numbers.SSN})", lower=False
        )
        self._seek_joined = self._search(numbers.SEEK_JOINED, lower=False)
        self._seek_cookies = self._search(cookies.SEEK_COOKIES)
        self._seek_contacts = self._search(contacts.SEEK_CONTACTS, lower=False)
        hint = named.WORD_HINT
        self._by_context = (
            *(
                (self._search(seek, then, short=short, hint=hint), named.find_named)
                for seek, then, short in named.SEEKS
            ),
            (self._search(named.SEEK_BEFORE, hint=hint), named.find_before),
            (self._search(*named.SEEK_PAIR), named.find_pair),
            (self._search(contacts.SEEK_SEEDS, hint=contacts.SEEDS_HINT, many_lines=True), contacts.find_seeds),
            (self._search(tables.SEEK_INSERT, hint=tables.INSERT_HINT, many_lines=True), tables.find_in_insert),
        )
        self._seek_tables = self._search(tables.SEEK_TABLE)
        self._seek_runs = self._search(_RUNS, in_bulk=True)
        self._seek_far = self._search(_FAR, in_bulk=True)
        self._seek_base64 = self._search(SEEK_BASE64, lower=False)
        self._prefilter = Prefilter(self._searches, with_re2=with_re2)

    def _search(
        self, pattern: str, then: str = "", *, lower: bool = True, in_bulk: bool = False, **more: Any
    ) -> Search:
        """Compile a search. With `in_bulk`, the search is not part of the first pass over each text."""
        search = Search(pattern, then, lower=lower, with_re2=self._with_re2, **more)
        if not in_bulk:
            self._searches.append(search)
        return search

    def _compile_vendors(self) -> None:
        self._rows = [(row[0], CHECKS[row[3]]) for row in vendors.VENDORS]
        rows_of: dict[str, list[str]] = {}
        firsts: dict[str, list[str]] = {}
        for number, (_, starts, rest, *_) in enumerate(vendors.VENDORS):
            for two in {start[:2] for start in starts.split()}:
                rows_of.setdefault(two, []).append(f"(?P<r{number}>{alternatives(starts.split())}{rest})")
            for start in starts.split():
                firsts.setdefault(start, []).append(_first_of(rest))
        self._vendors = {two: re.compile("|".join(rows)) for two, rows in rows_of.items()}
        heads = alternatives({start: f"(?:{'|'.join(rests)})" for start, rests in firsts.items()})
        any_head = alternatives([*firsts])
        self._seek_vendor = self._search(_BOUNDARY + heads, lower=False)
        self._seek_wrapped = self._search(f"{_BOUNDARY}{any_head}[A-Za-z0-9._/+=-]+[ \\t]*\\r?\\n", lower=False)
        self._starts = re.compile(any_head)
        self._kinds = {start: row[0] for row in vendors.VENDORS for start in row[1].split()}
        token = f"{any_head}[A-Za-z0-9._/+=~-]{{10}}[A-Za-z0-9._/+=~-]*"
        self._seek_tokens = self._search(f"{_BOUNDARY}{token}(?:[\\s\"'`,;|:=]+{token})*", lower=False, in_bulk=True)

    def _compile_infixes(self) -> None:
        self._infix_rows = [(row[0], CHECKS[row[3]]) for row in vendors.INFIXES]
        infixes = "|".join(f"(?P<r{number}>{row[2]})" for number, row in enumerate(vendors.INFIXES))
        self._infix = re.compile(rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:{infixes})(?![A-Za-z0-9])")
        infix = "|".join(row[1] for row in vendors.INFIXES)
        self._seek_infix = self._search(f"(?:{infix})(?:[!-~]{{0,8}}(?:{infix}))*", lower=False)

    def _compile_forms(self) -> None:
        self._compiled = [
            (kind, re.compile(pattern, re.IGNORECASE if any_case else 0), CHECKS[check])
            for kind, _, pattern, check, any_case in forms.FORMS
        ]
        self._seek_forms = [
            self._search("|".join(row[1] for row in forms.FORMS if row[4] is any_case), lower=any_case)
            for any_case in (False, True)
        ]

    def find(
        self, scanned: Scanned, left: Limits, *, in_path: bool = False, with_contacts: bool = False
    ) -> Iterator[Find]:
        """Yield the matches in a text as written, without decoding parts of it.

        `left` limits the number of candidates that are checked one by one. With `in_path`, the text is a path, and card
        numbers need no context. With `with_contacts`, e-mail addresses and phone numbers are found too.
        """
        text, judged = scanned.text, len(scanned.text)
        if not self._prefilter.narrow(scanned):
            return
        yield from self._by_vendor(scanned, left)
        yield from self._by_infix(scanned)
        yield from self._in_two_lines(scanned, left)
        for start, end in self._seek_numbers.spans(scanned):
            yield from numbers.find_numbers(text, start, end, in_path=in_path)
        for start, end in self._seek_joined.spans(scanned):
            yield from numbers.find_joined(text, start, end)
        if with_contacts:
            for start, end in self._seek_contacts.spans(scanned):
                yield from contacts.find_contacts(text, start, end)
        by_form = ((search, self._by_form, left.certain) for search in self._seek_forms)
        by_context = ((search, finder, left.places) for search, finder in self._by_context)
        for search, finder, places in (*by_form, *by_context):
            for start, end in search.spans(scanned):
                if not places.take():
                    judged = min(judged, start)
                    break
                yield from finder(text, start, end)
        yield from self._by_reach(self._seek_cookies, cookies.find_cookies, scanned, left.certain)
        yield from self._by_reach(
            self._seek_tables, partial(tables.find_in_table, left=left.places), scanned, left.places
        )
        if judged < len(text):
            yield from self._in_bulk(text, judged)

    def exclude(self, text: str) -> bool:
        """Return True if a quick check shows that a text has no match, as written or decoded.

        Return False if the quick check cannot tell.
        """
        if not text.isascii() or "%" in text or not self._prefilter.has_re2:
            return False
        may_be_base64 = False
        for search in self._prefilter.matching(text.encode()):
            if search is not self._seek_base64:
                return False
            may_be_base64 = True  # many paths look like base64, since it may contain slashes
        return not may_be_base64 or decoded(text) is None

    def reach_far(self, text: str) -> bool:
        """Return whether a match in the text may depend on text at any distance from the match."""
        return next(self._seek_far.spans(Scanned(text)), None) is not None

    def _by_reach(
        self, search: Search, finder: Callable[..., tuple[list[Find], int]], scanned: Scanned, places: Budget
    ) -> Iterator[Find]:
        """Yield the matches of a finder that also returns the position up to which it examined the text."""
        reach = [0]
        for start, end in search.spans(scanned, reach):
            if start >= reach[0]:
                if not places.take():
                    break
                finds, reach[0] = finder(scanned.text, start, end)
                yield from finds

    def _in_bulk(self, text: str, judged: int) -> Iterator[Find]:
        """Yield one password match for each run of assignments after position `judged`."""
        rest = Scanned(text[judged:])
        for start, end in self._seek_runs.spans(rest):
            value = _VALUE_OF_RUN.search(rest.lower, start, end)
            if value is not None:
                yield Find("password", judged + value.start(1), judged + end)

    def encoded(self, scanned: Scanned, found: Sequence[Find], left: Limits) -> Iterator[Find]:
        """Yield the URL-encoded or base64 parts of a text that contain a sensitive value when decoded.

        Matches that are only likely do not count. `found` has the matches of `find` in the same text. A part that
        contains a match in `found` is left out.
        """
        view = decoded(scanned.text, self._seek_base64.char_regions(scanned))
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
        """Yield tokens that are split in two by a line break."""
        for start, end in self._seek_wrapped.spans(scanned):
            if not left.wraps.take():
                break
            head = scanned.text[start:end].rstrip()
            tail, follows = unwrapped(scanned.text, start + len(head))
            find, _ = self._vendor_in(head + tail, 0, len(head))
            if find is not None and find.start + MIN_HEAD <= len(head) < find.end:
                yield Find(find.kind, start + find.start, follows + find.end - len(head))

    def _tokens_in_bulk(self, text: str, judged: int) -> Iterator[Find]:
        """Yield tokens after position `judged`. Tokens with only punctuation or spaces between them form one match."""
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
        """Return the token at a candidate (None if there is no token), and the position where the search continues."""
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
        if text[start] in ":|" and text[start + 1] != "/":  # the user name or the password is before this character
            before = text[max(0, start - 110) : start][::-1]
            start -= _BEFORE_SIGN[text[start]].match(before).end()  # type: ignore[union-attr] # it can be empty
        for kind, pattern, check in self._compiled:
            match = pattern.match(text, start)
            if match is None or not check(match["value"]):
                continue
            first, last = match.span("value")
            weak = kind in {"password", "url_password", "connection_string"}
            likely = weak and not is_strong(match["value"])
            yield Find(kind, first, last, likely=likely)
            return


def _first_of(rest: str) -> str:
    first = re.match(r"(\[[^\]]+\]|\\d)\{(\d+)", rest)
    return f"{first[1]}{{{min(int(first[2]), 40)}}}" if first else "[!-~]{8}"
