"""Passwords and secrets in the same sentence as the word for them, with no sign such as `=` or `is` between."""

# ruff: noqa: E501 - a pattern or a list is a line

from __future__ import annotations

import re
from collections.abc import Iterator

from retentive.redaction.plausibility import Value, is_obvious, is_passphrase, is_password, is_secret
from retentive.redaction.rules import Find
from retentive.redaction.tokens import UUID
from retentive.redaction.words import is_state

_REACH = 100  # characters of the sentence after the word
_SENTENCE_END = re.compile(r"[.!?][ \t]+(?=[A-ZÄÖÜÉ])|。|[{}]")
_MARKS = r"\"'`„“”«»「」『』"
_ENDS = rf"[\s{_MARKS}<>|、。，；：！？（）\u3040-\u30ff\u3400-\u9fff]"
# A possible value: it contains a digit or a sign that words do not have.
_TOKEN = re.compile(
    rf"(?<![A-Za-zÀ-ÿ0-9_@$%/=.])(?=[^\s{_MARKS}]{{0,60}}[\d!@#$%^&*+~?])[^\s{_MARKS}<>|、。，；：！？（）\u3040-\u30ff\u3400-\u9fff]{{5,80}}(?={_ENDS}|$)"
)
_SECRET = re.compile(
    r"(?<![A-Za-z0-9+/=_.:@?&-])(?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9+/_-]{20,200}={0,2}(?![A-Za-z0-9+/=_@:.-])|(?<![A-Za-z0-9+/=_:@?&-])(?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9+/_-]{20,200}={0,2}(?=[.:]?(?:\s|$))"
)
_UUID = re.compile(UUID)
_SIGN = re.compile(
    rf"(?:[:：=→]|->|=>|(?<![\w-])(?:is|is now|it['’]s|its|now|type|enter|try|namely|called|as|als|comme|lautet|ist|hei(?:ß|ss)t|auf|jetzt|neu|nun|est|c['’]est|en|par|devient|becomes|be|(?:set|reset|changed|updated|rotated|switched) to|(?:changed|reset|rotated|updated|geändert|changé) (?:from|von|de))|は|が|として|を|是|为|為|成|用|作为|作為)(?<!不要用)(?<!别用)(?<!勿用)[ \t\u3000]{{0,3}}(?:\*{{1,2}})?[{_MARKS}]?(?:\*{{1,2}})?$"
)
_WORDY = re.compile(r"(?:(?!&&|\w\()[^=;|{}<>\[\]\\\n])*")
_OF_A_HASH = re.compile(
    r"(?:commit|sha-?\d*|md5|hash|digest|checksum|fingerprint|uuid|revision|rev|trace|image|fichier|file|version|\bid|\bref)\W{0,4}$",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_HAS_SIGN = re.compile(r"[\d@#$%^&*+~]|[!?]\w")
_TIED = re.compile(r"[:：=–—]|- ")
_TRAILING = ".,;:)]}*'"
_TO = re.compile(
    r"[\"'`]?,?[ ]?(?:to|auf|in|à|en|par|到|改为|改成|变成|から|→|->)[ ]?[\"'`]?(?P<value>[^\s\"'`<>|、。，]{5,64})"
)
MIN_MORE = 6
PHRASE_WORDS = frozenset(
    {"passphrase", "pass phrase", "phrase secrète", "phrase de passe", "パスフレーズ", "密码", "密碼"}
)
MIN_LONG = 20  # characters: without a sign between word and value, a shorter value may be an ordinary word
_FOLLOWS = re.compile(r"(?:以下|次の|下記|如下)[^\n]{0,12}$")
_ANSWER = re.compile(
    r"(?:[^\n]{0,60}[?:：。])?[ \t]*\r?\n(?:[ \t]*\r?\n)?[ \t]{0,12}(?:[-*>] ?|<?[\w.-]{1,20}[>:] ?)?[`\"'*]{0,3}(?P<value>[^\s`\"'|<>]{5,64})[`\"'*]{0,3}[ \t]*(?:\r?\n|$)"
)
_ASKED = re.compile(r"\?[ \t]{1,3}[`\"']?(?P<value>[^\s`\"'|<>]{5,64})[`\"']?[ \t]*(?:\r?\n|$)")
_PHRASE = re.compile(
    r"[^\n:：=]{0,40}(?:[:：=–—-]| is| ist| lautet| est)[ \t]*[\"'`*]{0,2}(?P<value>[A-Za-zÀ-ÿ]{2,12}(?: [A-Za-zÀ-ÿ]{2,12}){3,9})[\"'`*]{0,2}[ \t]*(?:\r?\n|$)"
)


def find_nearby(text: str, end: int, word: str, kind: str) -> Iterator[Find]:
    """Values for the word that ends at `end`: later in its sentence, or on the line below a question."""
    stop = text.find("\n", end, end + _REACH)
    line = text[end : stop if stop >= 0 else end + _REACH + 80]
    if kind == "secret":
        if _DIGIT.search(line) and max(map(len, line.split())) >= MIN_LONG:
            yield from _secrets(_clause(line), end)
        return
    found = list(_passwords(_clause(line), end)) if _HAS_SIGN.search(line) else []
    yield from found or _below(text, end, line, stop, word)


def _clause(line: str) -> str:
    over = _SENTENCE_END.search(line)
    return line if over is None else line[: over.start() + 1]


def find_more(text: str, end: int, found: Find) -> Iterator[Find]:
    """Further passwords on the line of a find: the new one after the old one, or that of another account.

    `end` is the end of the word for the password.
    """
    if found.kind == "password" and found.start - end > MIN_MORE:
        yield from _obvious(text[end : found.start - 1], end)
    stop = text.find("\n", found.end, found.end + _REACH)
    line = text[found.end : stop if stop >= 0 else found.end + _REACH]
    if found.kind == "password" and len(line) > MIN_MORE and _HAS_SIGN.search(line):
        yield from _obvious(line, found.end)
        yield from _changed(text, found)


def _obvious(line: str, offset: int) -> Iterator[Find]:
    for match in _TOKEN.finditer(line):
        value = match[0].rstrip(_TRAILING)
        if is_obvious(value):
            yield Find("password", offset + match.start(), offset + match.start() + len(value))


def _changed(text: str, found: Find, offset: int = 0) -> Iterator[Find]:
    """The new password in `changed from old to new`. `text` starts at position `offset`."""
    match = _TO.match(text, found.end - offset)
    value = match["value"].rstrip(_TRAILING) if match else ""
    if match is not None and _is_strong(value):
        start = offset + match.start("value")
        yield Find("password", start, start + len(value))


def _passwords(clause: str, offset: int) -> Iterator[Find]:
    wordy = _WORDY.match(clause)
    tied = wordy.end() if wordy else 0
    for match in _TOKEN.finditer(clause):
        at, value = match.start(), match[0].rstrip(_TRAILING)
        signed = at <= tied and _SIGN.search(clause[max(0, at - 14) : at]) is not None
        quoted = at <= tied and at > 0 and clause[at - 1] in "\"'`„“«「『" and not signed
        if len(value) < 5 or not (is_obvious(value) or ((signed or quoted) and _is_strong(value))):
            continue
        yield (found := Find("password", offset + at, offset + at + len(value)))
        yield from _changed(clause, found, offset)


def _is_strong(value: str) -> bool:
    return not is_state(value) and is_password(
        Value(value, "space", quoted=False, alone=True, tight=False, config=False)
    )


def _below(text: str, end: int, line: str, stop: int, word: str) -> Iterator[Find]:
    """The value on the line after `Password:`, the answer to `what's the password?`, or a passphrase of plain words."""
    patterns = []
    if stop >= 0 and line.rstrip()[-1:] in {":", "?", "：", ""}:
        patterns.append(_ANSWER)
    elif line[:1] == "?":
        patterns.append(_ASKED)
    elif stop >= 0 and _FOLLOWS.search(line):
        patterns.append(_ANSWER)
    elif _TIED.search(line) or word in PHRASE_WORDS:
        patterns.append(_PHRASE)
    for pattern in patterns:
        match = pattern.match(text, end)
        if match is None:
            continue
        value = match["value"].rstrip(".,;")
        if is_passphrase(value, announced=word in PHRASE_WORDS) if pattern is _PHRASE else _is_strong(value):
            yield Find("password", match.start("value"), match.start("value") + len(value))


def _secrets(clause: str, offset: int) -> Iterator[Find]:
    for match in _SECRET.finditer(clause):
        value = match[0].rstrip(".")
        if value.startswith("0x") or _UUID.fullmatch(value):
            continue
        candidate = Value(value, "colon", quoted=False, alone=True, tight=False, config=False)
        if _OF_A_HASH.search(clause[max(0, match.start() - 14) : match.start()]) or not is_secret(candidate):
            continue
        yield Find("secret", offset + match.start(), offset + match.start() + len(value))
