"""Redaction guard: applies the settings for sensitive values to a text before the text is stored.

Compiling the built-in patterns takes about 100 ms, so they are imported and compiled when the first text is examined.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from retentive.errors import InvalidInput, Refused
from retentive.redaction.changes import UNKNOWN, SameEnds, around, changed, end_around, start_around
from retentive.values.patterns import covers
from retentive.values.settings import Settings

if TYPE_CHECKING:
    from retentive.redaction.detector import Detector, Find, Rule

Detect: TypeAlias = "Callable[[str], Iterable[Find]]"
AHEAD_CHARS = 4_000  # a shorter text is examined in the transaction, which takes less than a millisecond
WHOLE_CHARS = 2_000  # a shorter text is examined whole, which often takes no longer than to decide whether it must be
MAX_PLAIN_CHARS = 300  # longest text or path that `_PLAIN` matches
MAX_CLEAN = 4_096  # maximum entries of `TextExaminer._clean`
MAX_HARMLESS, MAX_HARMLESS_CHARS = 4_096, 300  # maximum entries of `TextExaminer.harmless`, and characters of an entry
MAX_NAMED_LINES = 5  # Source: the sentences of the guards, "at most 5 lines named"
_WORD = r"(?:[A-Z]?[a-z]{0,14}|[A-Z]{1,10})[0-9]{0,4}"  # tokens mix cases and digits, or are longer
# A text without digits can have a sensitive value only near one of these words, or if it is a seed phrase.
_KEYWORDS = (
    r"pass|pw|psk|psw|pat|pin|mdp|mot|secret|token|key|cred|login|account|code|phrase|clave|contrasen|senha|kenn|acht"
    r"|sung|geheim|parol|jeton|zugang|anmelde|identif|benutz|salas|adgang|auth|bearer|basic|seed|ssn|iban|card|wifi|api|admin|sign"
)
# Matches at most 300 characters: a path of short words with at most 8 digits, or a short sentence without keywords.
_PLAIN = re.compile(
    rf"(?=.{{0,300}}\Z)(?:(?!(?:[^0-9]*[0-9]){{9}})(?:{_WORD}[/._-])*{_WORD}"
    rf"|(?!(?:\S+\s+){{11}})(?!.*?(?i:{_KEYWORDS}))(?:[A-Za-z][a-z]{{0,12}}[.,;!?]?[ \n]{{1,2}})*"
    rf"(?:[A-Za-z][a-z]{{0,12}}[.,;!?]?)?)",
    re.ASCII | re.DOTALL,
)
_LONG_NUMBER = _WORD.replace("{0,4}", "{0,8}")
# A path of short words with at most 8 digits has no certain match. In a text, such digits could be a likely match.
_PLAIN_PATH = re.compile(
    rf"(?=.{{0,300}}\Z)(?!(?:[^0-9]*[0-9]){{9}})(?:{_LONG_NUMBER}[/._-])*{_LONG_NUMBER}", re.ASCII | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Examined:
    """Result of examining a text that is to be saved.

    `text` is the text after the values of the `removed` kinds are masked. If `refused` names any kind, the text must
    not be saved. `flagged` has an item for each line with a flagged value: the line number and the kinds of the values.
    """

    text: str
    removed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    flagged: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TextExaminer:
    """Examines texts with the built-in rules and with the rules and detectors of an application. Threads may share it.

    `ahead` is the result of an examination before the write lock was taken: the kinds to find, the text, and its
    matches. The entries of `_clean` identify texts that have no value to redact. An entry has the settings, path,
    length and hash of a text. After an edit of such a text, often only the changed part is examined. `harmless` has
    short texts, mostly paths, in which the built-in rules find no match that is certain.
    """

    rules: Sequence[Rule] = ()
    detectors: Sequence[Detect] = ()
    ahead: tuple[tuple[str, ...], str, list[Find]] | None = None
    _detectors: dict[tuple[str, ...], Detector] = field(default_factory=dict)
    _clean: set[tuple[object, ...]] = field(default_factory=set)
    harmless: set[str] = field(default_factory=set)
    plain: Callable[[str], object] | None = field(init=False, default=None)
    """Function that matches only short texts without a value for the built-in rules. None if other rules are set."""
    plain_path: Callable[[str], object] | None = field(init=False, default=None)
    """Function that matches only paths in which the built-in rules have no certain match."""

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if `re` cannot compile the pattern of a rule."""
        for rule in self.rules:
            _ = rule.compiled
        if not self.rules and not self.detectors:
            object.__setattr__(self, "plain", _PLAIN.fullmatch)
            object.__setattr__(self, "plain_path", _PLAIN_PATH.fullmatch)

    def detector(self, kinds: tuple[str, ...]) -> Detector:
        """Return the detector for the setting `sensitive_kinds`. Raises `InvalidInput` for an unknown kind.

        Detectors are cached, because compiling rules takes time.
        """
        detector = self._detectors.get(kinds)
        if detector is None:
            from retentive.redaction.detector import Detector  # noqa: PLC0415 - see above
            from retentive.redaction.kinds import with_changes  # noqa: PLC0415 - see above

            detector = self._detectors[kinds] = Detector(
                with_changes(kinds), rules=self.rules, detectors=self.detectors
            )
        return detector

    def check(self, settings: Settings) -> None:
        """Raise `InvalidInput` if the settings name an unknown kind of sensitive value."""
        if settings.sensitive_kinds:
            try:
                self.detector(settings.sensitive_kinds)
            except InvalidInput as error:
                raise InvalidInput(f"sensitive_kinds: {error}") from None

    def prepared(self, settings: Settings, text: str) -> TextExaminer:
        """Return an examiner that has already examined the text of a command, before the write lock is taken.

        Returns this examiner if there is nothing to examine in advance, or if the examination fails.
        """
        if settings.sensitive == settings.sensitive_likely == "off" or (self.plain is not None and self.plain(text)):
            return self
        try:
            finds = self.detector(settings.sensitive_kinds).find(text)
        except Exception:  # `examine` will meet the same error in the transaction and refuse the text
            return self
        return TextExaminer(
            self.rules,
            self.detectors,
            (settings.sensitive_kinds, text, finds),
            self._detectors,
            self._clean,
            self.harmless,
        )

    def __call__(self, settings: Settings, text: str) -> tuple[str, Sequence[str]]:
        """Mask the certain matches in a path, or in another text that a reply quotes. Likely matches are not masked.

        Returns the masked text, and the kinds of the masked values. Raises `Refused` if a detector fails.
        """
        if settings.sensitive == "off":
            return text, ()
        has_usual_rules = self.plain_path is not None and not settings.sensitive_kinds
        if has_usual_rules and (text in self.harmless or self._is_plain_path(text)):
            return text, ()
        finds = [find for find in self._find(settings, text, in_path=True) if not find.likely]
        if has_usual_rules and not finds:
            self._remember_harmless(text)
        return _masked(text, finds), [find.kind for find in finds]

    def _is_plain_path(self, text: str) -> bool:
        if self.plain_path is None or not self.plain_path(text):
            return False
        self._remember_harmless(text)
        return True

    def _remember_harmless(self, text: str) -> None:
        if len(text) <= MAX_HARMLESS_CHARS:
            if len(self.harmless) >= MAX_HARMLESS:
                self.harmless.clear()
            self.harmless.add(text)

    def examine(
        self, settings: Settings, text: str, *, path: str = "", before: str = "", same: SameEnds = UNKNOWN
    ) -> Examined:
        """Apply the settings to a text that is to be saved at a path. Raises `Refused` if a detector fails.

        `before` is the previous text of the memory. Values are redacted in the whole text. They are flagged or refused
        only if they are new, that is, not in the previous text. `same` says how many characters at the start, and how
        many at the end, are known to be equal in both texts. It only makes the comparison of the texts faster.
        """
        if settings.sensitive == settings.sensitive_likely == "off" or self._is_plain(settings, text):
            return Examined(text)
        modes = (settings.sensitive, settings.sensitive_likely)
        about = (settings.sensitive_kinds, settings.sensitive_allow, modes, path)
        is_clean = before != "" and ("redact" not in modes or (*about, len(before), hash(before)) in self._clean)
        new = self.new_finds(settings, text, before, same=same) if is_clean else []
        removed: list[Find] = []
        if not is_clean or (new and _chosen(settings, "redact", new, text, path)):
            whole = self._find(settings, text)
            removed = _chosen(settings, "redact", whole, text, path) if whole else []
            new = self.new_finds(settings, text, before, whole, same=same) if before and whole else whole
        if not removed and "redact" in modes:
            if len(self._clean) >= MAX_CLEAN:
                self._clean.clear()
            self._clean.add((*about, len(text), hash(text)))
        if not removed and not new:
            return Examined(text)
        refused = tuple(find.kind for find in _chosen(settings, "reject", new, text, path))
        flagged = _lines(text, _chosen(settings, "flag", new, text, path), removed)
        return Examined(_masked(text, removed), tuple(find.kind for find in removed), refused, flagged)

    def new_finds(
        self,
        settings: Settings,
        text: str,
        before: str,
        known: Sequence[Find] | None = None,
        *,
        same: SameEnds = UNKNOWN,
    ) -> list[Find]:
        """Return the matches in the changed lines and near them, except matches that the previous text has there too.

        The whole texts are compared if the new text is short, or if matches may depend on text that is far away, as
        with the rules of an application. `before` is the previous text. `known` are the matches in the whole new text
        if it was already examined. `same` is as in `examine`.
        """
        start, end, end_before = changed(before, text, same)
        is_whole = len(text) <= WHOLE_CHARS or self._reaches_far(text)
        now, offset = (text, 0) if is_whole else around(text, start, end)
        new: list[Find] = []
        if known is None and self.ahead is not None and self.ahead[:2] == (settings.sensitive_kinds, text):
            known = self.ahead[2]
        finds = self._find(settings, now) if known is None else _within(known, offset, offset + len(now))
        if not finds:
            return new
        old = before if is_whole else around(before, start, end_before)[0]
        # With the grade: an edit of "Number 5500..." to "Card number 5500..." once saved the number, as it was not new.
        had = Counter(
            (find.kind, find.likely, old[find.start : find.end]) for find in self._find(settings, old, exact=True)
        )
        for find in finds:
            value = (find.kind, find.likely, now[find.start : find.end])
            touched = find.start + offset < end and find.end + offset > start
            if not touched and had[value] > 0:
                had[value] -= 1
                continue
            new.append(find)
        return _moved(new, offset)

    def _find(self, settings: Settings, text: str, *, in_path: bool = False, exact: bool = False) -> list[Find]:
        kinds = settings.sensitive_kinds
        try:
            if self.ahead is not None and self.ahead[0] == kinds and not exact and not in_path:
                if self.ahead[1] == text:
                    return self.ahead[2]
                if len(self.ahead[1]) >= AHEAD_CHARS and self.ahead[1] in text:
                    return self._with_seams(settings, text)
            return self.detector(kinds).find(text, in_path=in_path)
        except Exception as error:  # a detector may raise anything; fail closed
            failed = type(error).__name__
        import logging  # noqa: PLC0415 - importing it here keeps startup fast

        logging.getLogger("retentive").error("sensitive value check failed (%s); the text was not saved", failed)
        raise Refused("not_checked")  # raised outside `except`, because the original error may quote the text

    def _with_seams(self, settings: Settings, text: str) -> list[Find]:
        """Return the matches in a text that contains the text of `ahead`.

        The matches of `ahead` are used again. Only the edges of its text and the text around it are examined now. If a
        match depends on text on the other side of an edge, the whole text is examined. Before this rule existed, a card
        number in the text of `ahead` was saved, because the words "credit card" were outside that text.
        """
        assert self.ahead is not None
        _, brought, finds = self.ahead
        at, find_in = text.index(brought), self.detector(settings.sensitive_kinds).find
        end = at + len(brought)
        first, last = end_around(text, at), start_around(text, end)
        if last <= first or self._reaches_far(text):
            return find_in(text)
        inside, head, tail = _moved(finds, at), find_in(text[:first]), _moved(find_in(text[last:]), last)
        at_edges = [find for find in inside if find.start < first or find.end > last]
        if [find for find in head if find.end > at] + [find for find in tail if find.start < end] != at_edges:
            return find_in(text)
        return [*(find for find in head if find.end <= at), *inside, *(find for find in tail if find.start >= end)]

    def _reaches_far(self, text: str) -> bool:
        """Return whether a match may depend on text that is far away."""
        if self.rules or self.detectors:
            return True
        from retentive.redaction.detector import reaches_far  # noqa: PLC0415 - see above

        return reaches_far(text)

    def _is_plain(self, settings: Settings, text: str) -> bool:
        if len(text) > MAX_PLAIN_CHARS or settings.sensitive_kinds or self.plain is None:
            return False
        return bool(self.plain(text))


def allowance(value: str, salt: bytes | None = None) -> str:
    """Return the entry that the setting `sensitive_allow` needs in order to allow one value.

    The entry is a keyed hash (HMAC-SHA256) with a random key, so it does not show the value.
    """
    salt = os.urandom(16) if salt is None else salt
    return f"value:{salt.hex()}:{hmac.new(salt, value.encode('utf-8', 'replace'), hashlib.sha256).hexdigest()}"


def _moved(finds: Iterable[Find], by: int) -> list[Find]:
    return [type(find)(find.kind, find.start + by, find.end + by, likely=find.likely) for find in finds]


def _within(finds: Sequence[Find], start: int, end: int) -> list[Find]:
    """Return the matches between two positions of a text, with positions relative to `start`."""
    return [
        type(find)(find.kind, find.start - start, find.end - start, likely=find.likely)
        for find in finds
        if start <= find.start and find.end <= end
    ]


def _chosen(settings: Settings, mode: str, finds: Sequence[Find], text: str, path: str) -> list[Find]:
    """Return the matches to which the settings apply `mode`, such as `redact`. Allowed matches are left out."""
    modes = (settings.sensitive, settings.sensitive_likely)
    if settings.sensitive_allow:
        finds = [find for find in finds if not _is_allowed(settings, find, text, path)]
    return [find for find in finds if modes[find.likely] == mode]


def _is_allowed(settings: Settings, find: Find, text: str, path: str) -> bool:
    """Return whether `sensitive_allow` has an entry for the kind, the path or the value of a match."""
    for entry in settings.sensitive_allow:
        if entry.startswith("value:"):
            if hmac.compare_digest(allowance(text[find.start : find.end], bytes.fromhex(entry.split(":")[1])), entry):
                return True
        elif entry == find.kind or (entry.startswith("/") and path and covers((entry,), path)):
            return True
    return False


def _masked(text: str, finds: list[Find]) -> str:
    from retentive.redaction.detector import replaced  # noqa: PLC0415 - see above

    return replaced(text, finds) if finds else text


def _lines(text: str, flagged: list[Find], removed: list[Find]) -> tuple[tuple[int, str], ...]:
    """Return the line numbers and kinds of the flagged values.

    Lines are counted in the text after redaction, because a redacted value can contain line breaks.
    """
    by_line: dict[int, list[str]] = {}
    starts = [find.start for find in removed]
    gone = list(accumulate((text.count("\n", find.start, find.end) for find in removed), initial=0))
    line, at = 1, 0
    for find in sorted(flagged, key=attrgetter("start")):
        line, at = line + text.count("\n", at, find.start), find.start
        by_line.setdefault(line - gone[bisect_left(starts, find.start)], []).append(find.kind)
    return tuple((line, ", ".join(dict.fromkeys(kinds))) for line, kinds in sorted(by_line.items()))
