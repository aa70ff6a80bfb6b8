"""Passwords and secrets that are recognized by a word near them, such as `password`: in assignments and in prose."""

# ruff: noqa: E501 - a pattern is a line

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from retentive.redaction import values
from retentive.redaction.rules import Find
from retentive.redaction.search import alternatives, lowered
from retentive.redaction.values import CERTAIN, LIKELY, MAX_PASSWORD, NO
from retentive.redaction.vendors import NAMED
from retentive.redaction.words import LOGIN_WORDS, NOT_A_VALUE, NOT_SECRET, PASSWORD_WORDS, SECRET_WORDS, SHORT_WORDS

_LONG_PASSWORDS = [word for word in PASSWORD_WORDS if word not in SHORT_WORDS]
_LONG_SECRETS = [word for word in SECRET_WORDS if word not in SHORT_WORDS]
_ANY, _SECRETS, _SHORT = (
    alternatives([*_LONG_PASSWORDS, *_LONG_SECRETS]),
    alternatives(_LONG_SECRETS),
    alternatives(SHORT_WORDS),
)
_PREFIX = "(?:root|bind|db|mysql|pg|user|admin|store|key|my|ssh|ftp|smtp|sudo|mail|proxy|default|srcstore|deststore|truststore|ldap|vnc|redis|mongo|web|http|app|sys|login|require|ansible_ssh_)"
_LONG, _SHORT_PASSWORD = alternatives(_LONG_PASSWORDS), f"(?:\\A|[^a-z]){_PREFIX}?{_SHORT}"
_PASSWORD = f"(?:{_LONG}|{_SHORT_PASSWORD})"
_ITS = "(?:(?:the|our|my|your|his|her|their|a|das|unser|mein|dein|ihr|den|die|le|la|mon|ton|notre|votre|tu|su)[ ])?"

# Each row finds candidates: a pattern for a word, a pattern for its possible value later on the line, and short
# words that count too. Long repetitions have no upper limit: with limits, the automaton of RE2 would get too large.
SEEKS = (
    (
        _LONG,
        "[0-9@#$%^&*+~!]|[:=：＝→「『“„«【`\"'][ \t*]*[^\\s\"'`]{4}|[ ](?:is|was|to|as|ist|war|lautet|auf|est|en|es|als|comme|de)[: ]|[ ](?:[–—-]|->)[ ]|[a-z]-[a-z]+-[a-z]|>[^\\s<]{4}",
        _SHORT_PASSWORD,
    ),
    (alternatives(word for word in PASSWORD_WORDS if word[0] > "\u2e80"), "[!-~]{4}", ""),
    (f"{_SECRETS}|[ _-]key|schlüssel|clé|key[ ]?[:=]", "[0-9][a-z0-9+/_.=~!#$%^&*@-]{7}|[a-z0-9+/_-]{20}", ""),
    (f"(?:{_PASSWORD}|{_SECRETS})(?:[_.-][^\\s:：]*|[\"'`*,)\\]]*)[ \t]*[:：]?[ \t]*\\r?\\n", "", ""),
)
# Matches the words of all searches above and of `SEEK_BEFORE`.
WORD_HINT = f"{_ANY}|{_SHORT_PASSWORD}s?[0-9]{{0,2}}(?:[^a-z]|[a-z]-|\\z)|[ _-]key|schlüssel|clé|key[ ]?[:=]"
# A value before its word, or next to a user name: `hunter2 is the password`, `admin / J3nk!nsRul3z`.
SEEK_BEFORE = f"(?:(?:is|was|as|ist|war|als|for|für|est|pour|comme|como)[ ]{_ITS}(?:[^\\s]+[ ]){{0,2}}|[がをは是为為作用当當做][^\\s!-~]{{0,12}}?|[ ]\\((?:the[ ])?(?:[^\\s()]+[ ]){{0,2}}){_ANY}"
SEEK_PAIR = (
    f"(?:\\A|[^a-z]){alternatives(LOGIN_WORDS)}",
    "[a-z0-9_.@+-][\"'`]?[ ]?(?:[/:|,，]|and|und|et|with)[ ]?[\"'`]?[^\\s\"'`|,/:]*[0-9!@#$%^&*+~][^\\s]*",
)

_WORD = re.compile(
    f"(?P<long>{_ANY})|(?=[{''.join({word[0] for word in SHORT_WORDS})}])(?:(?<=[^a-z])|(?<={_PREFIX[3:-1].replace('|', ')|(?<=')})|^)(?P<short>{_SHORT})(?=s?(?:[0-9]{{0,2}}(?![a-z0-9+/])))|(?<=[ _-])(?P<key>key)|schlüssel|clé"
)
_SUFFIX = re.compile(r"(?:[A-Za-zäöüß0-9]|[_.-](?=[A-Za-z0-9])|\[(?=[\"']?[a-z0-9]+[\"']?\]))*")
_NAME_CHARS = string.ascii_letters + string.digits + "_.$-"
_PARTS = re.compile(r"[A-Z]?[a-zäöüß]+|[A-Z]+|\d+")
_ENDINGS = frozenset({"", "s", "es", "e", "en", "er", "n", "in", "base"})
_GAP = r"(?:[ \t]{1,3}+[^\s:=：|;!?,.{}\[\]\"']{1,40}+|[ \t]?（[^（）\s]{1,20}）|の[^\s:=：はが]{0,20}){0,7}?"
_VERB = (
    r"(?:['’]s|used to be|had been|which (?:is|was)|it is|it['’]s|c['’]est(?: (?:maintenant|désormais|toujours))?|(?:is|was|has been|will be|should be|remains|becomes|equals|lautet|lautete|ist|war|wird|wäre|bleibt|hei(?:ß|ss)t|est|était|sera|serait|reste|vaut|devient|es|será|era|é)"
    r"(?: (?:now|still|currently|set to|just|simply|again|temporarily|jetzt|nun|aktuell|derzeit|weiterhin|maintenant|désormais|toujours|ahora))?(?: set to)?|(?:got )?(?:set |changed |reset |updated |rotated )?to|auf|(?:a été |est )?(?:changé|modifié|remplacé) (?:en|par|à)|has been (?:set|changed|updated))"
)
_CJK = r"(?:は、?|が|を|に|として|(?:还|還|应该|應該|好像|可能|暂时|暫時|现在|現在|已经|已經|已|就|都|仍)?(?:是|为|為|用)|(?:已经|已經|已)?(?:设置|設置|設定|更改|重置|更新|变更|變更|修改|[改设設换換变變])(?:为|為|成了|成|到)?|暂时用|には)了?[ \t]?[:：]?"
_TYPE = r"(?:[ \t]*:[ \t]*(?:Optional\[)?(?:str|String|string|SecretStr|bytes|&(?:'static )?str|any)\]?(?: ?\| ?(?:None|null|undefined))?(?=[ \t]*=)|[ \t]string(?=[ \t]*=)|\[\d{0,4}\](?=[ \t]*=))?"
_LINK = re.compile(
    rf"[\"'`*_\])\\」』”»】]{{0,5}}(?:"
    rf"(?P<value>(?:[ \t]*[,;]\s{{0,20}}|\s{{1,20}}|</\w{{1,20}}>\s{{0,20}}<)[\"']?[Vv]alue[\"']?[ \t]?[:=>])"
    rf"|[?:：]?[*_]{{0,2}}[ \t]*(?P<below>\r?\n(?:[ \t]*\r?\n)?[ \t]{{0,12}}(?:[-*>] ?|<?[\w.-]{{1,20}}[>:] ?)?)"
    rf"|{_TYPE}[ \t]{{0,20}}(?P<sign>:=|=>|->|→|={{1,3}}|[:：＝])"
    rf"|(?P<call>\()(?=[rb]?[\"'])|(?P<comma>,[ \t]?(?=[\"']))|(?P<tag>>)(?!>)"
    rf"|{_GAP}[ \t]{{0,3}}(?P<far>:=|=>|->|→|[:=：|]|[—–-](?= ))"
    rf"|{_GAP},?[ \t]{{0,3}}(?P<verb>{_VERB})(?::|[ ]?\n)?(?=[ \t:])"
    rf"|[^\s:=：A-Za-z]{{0,12}}?(?P<cjk>{_CJK})|(?P<bracket>(?=[「『“【]))|(?P<direct>(?<=[\u3040-\u9fff])[ ]?(?=[A-Za-z0-9]))"
    rf"|[ \t]{{0,3}}(?P<table>\|)|(?P<space>[ \t]{{1,20}}\(?)"
    r")[ \t\u3000]{0,20}(?:\*{1,2}[ \t])?(?:!!str )?"
)
_QUOTED = re.compile(
    r"[rbuRBU]{0,2}(?:\"((?:[^\"\\\n]|\\.){1,200})\"|'((?:[^'\\\n]|\\.){1,200})'|`([^`\n]{1,200})`|«[ \u00a0\u202f]?([^»\n]{1,200}?)[ \u00a0\u202f]?»"
    r"|「([^」\n]{1,200})」|『([^』\n]{1,200})』|【([^】\n]{1,200})】|[“„]([^”“\n]{1,200})[”“]|‘([^’\n]{1,200})’|\\+[\"']([^\"'\\\n]{1,200})\\+[\"']|\*\*([^*\s]{1,200})\*\*|__([^_\s]{4,200})__)"
)
_BARE = re.compile(r"[^\s\"'`<>|「」『』【】«»“”„、。，；：！？）（\u3040-\u30ff\u3400-\u9fff]+")
_NEXT_PAIR = re.compile(r"[;&,](?=$|[A-Za-z][\w .-]{0,40}=)|,.*")
_END = re.compile(
    r"[ \t]*(?:$|[\r\n]|[#|/<\"'`),;}\]\\。、，；！）」は」]|--|//|&|[.!](?=[ \t]*(?:$|[\r\n])|[ \t]+[A-ZÄÖÜÉ])|です|でした|に|とのこと|[了哦吧啦呢])"
)
_TOKEN = re.compile(r"(?<![\w@$%/=.-])[^\s\"'`„“”«»<>|、。，；：！？（）\u3040-\u30ff\u3400-\u9fff]{5,200}")
_CONFIG = re.compile(r"[ \t]*(?:[-*+>#;$] ?)?(?:export |set |ENV |ARG |env: )?[\"'`*]{0,2}[\w.-]*")
_HASH_BEFORE = re.compile(
    r"(?:commit|sha-?\d*|md5|hash|digest|checksum|fingerprint|uuid|revision|rev|trace|image|\bid|\bref)\W{0,4}$",
    re.IGNORECASE,
)
_PAIR = re.compile(
    r"(?<![\w/.@+-])(?=([\w.@+-]{2,40})[\"'`]?[ ]?(?:[/:|,、，]|and|und|et|with|密码)[ ]?[\"'`]?([^\s\"'`|/,，、]{5,64})(?![/\w]))"
)
_AFTER = re.compile(r" ([^\s\"'`:=]{4}[^\s\"'`]{4,80})")
_SETS = re.compile(r"(?:set|with|use|using|user|by|define|env)[_.(\"']*$", re.IGNORECASE)
_PHRASES = {"パスフレーズ", "密码", "密碼"}
_PHRASE = re.compile(r"[A-Za-zÀ-ÿ]{2,12}(?: [A-Za-zÀ-ÿ]{2,12}){3,9}(?=[\"'`.]*[ \t]*(?:$|[\r\n]))")
_VENDORS = re.compile(alternatives(word for _, words, _ in NAMED for word in words.split("|")))
_OF_A_VALUE = re.compile(r"[\d@#$%^&*+~!]|[a-z]-[a-z]+-[a-z]|[a-z][A-Z].*[a-z][A-Z]")
MAX_NAME = 40  # characters; a longer name without `_` or other signs is base64
MAX_WORDS = 8  # maximum words that are examined before a value
MAX_NEAR = 3  # maximum possible values that are examined after a word
_REACH = 160  # maximum characters between a word and its value
_TRAILING = ".,;:)]}'\\?*>!"


@dataclass(frozen=True, slots=True)
class _Name:
    """Name of a value in a text. It contains a word for a password or secret, as in `DB_PASSWORD` or `api key`."""

    text: str
    start: int
    end: int
    is_password: bool
    is_generic: bool  # a name that ends with `key`; many values with such names are not secrets
    is_phrase: bool


def find_named(text: str, start: int, end: int) -> Iterator[Find]:
    """Yield the values after words such as `password` or `token` between two positions.

    Only words near `end` are examined, because the search pattern ends at the value.
    """
    at, last = max(start, end - _REACH), start - 1
    words = [at + word.start() for word in islice(_WORD.finditer(lowered(text[at:end])), MAX_WORDS)]
    for first in words if at > start else dict.fromkeys((start, *words[1:])):
        if first > last:
            finds = list(_find_at(text, first, end))
            last = max((find.end for find in finds), default=last)
            yield from finds


def _find_at(text: str, start: int, end: int) -> Iterator[Find]:
    name = _name(text, start, end)
    if name is None:
        return
    link = _LINK.match(text, name.end, name.end + 400)
    find = _strong(text, name) or (_linked(text, name, link) if link is not None else None)
    if find is None and not name.text.lower().endswith("pass"):  # `pass` is also a verb
        find = _nearby(text, name)
    if find is not None:
        yield find
        yield from _changed(text, find)


def _strong(text: str, name: _Name) -> Find | None:
    """Find a password that contains `=` and directly follows the word. In prose, this `=` is not an assignment."""
    match = _AFTER.match(text, name.end) if name.is_password else None
    value = match[1].rstrip(_TRAILING) if match else ""
    if match is None or "=" not in value or values.password(value, quoted=False) < CERTAIN:
        return None
    return Find("password", match.start(1), match.start(1) + len(value), likely=True)


def find_before(text: str, start: int, end: int) -> Iterator[Find]:
    """Yield a value that precedes its word, as in `Kumquat-9 is the password`.

    `start` is the position of the end of the value, or of a space after the value.
    """
    line = text[max(0, start - 100) : start].rpartition("\n")[2].rstrip(" ")
    match = re.search(r"([!-~]{5,80})$", line.rstrip("\"'`”“»』」"))
    if match is None:
        return
    value = match[1].lstrip("\"'`(").rstrip(".,;:)")
    is_secret = text[start:end].lower().endswith(SECRET_WORDS)
    grade = values.secret(value, quoted=False) if is_secret else values.password(value, quoted=False)
    if grade and not _is_more_words(text, end):
        at = text.rindex(value, max(0, start - 100), start)
        yield Find("secret" if is_secret else "password", at, at + len(value), likely=True)


def _is_more_words(text: str, end: int) -> bool:
    """Return whether the word is only part of a longer name, as in `is the password policy`."""
    suffix = _SUFFIX.match(text, end)
    follows = re.match(r"\S*[ ]([a-z]+)", text[end : end + 40])
    return (suffix is not None and len(suffix[0]) > 2) or (follows is not None and follows[1] in NOT_A_VALUE)


def find_pair(text: str, start: int, end: int) -> Iterator[Find]:
    """Yield a password after a user name and a separator, as in `credentials: admin / J3nk!nsRul3z`."""
    start = max(start, end - _REACH)
    for match in _PAIR.finditer(text[start:end]):
        value = match[2].rstrip(".,;:)")
        grade = values.password(value, quoted=False) if re.search(r"[A-Za-z]", value) else NO
        if grade and (grade == CERTAIN or re.search(r"[@#$%^&*+~!]|[A-Za-z]\d[A-Za-z]", value)):
            yield Find("password", start + match.start(2), start + match.start(2) + len(value), likely=True)


def _name(text: str, start: int, end: int) -> _Name | None:
    window = text[max(0, start - 60) : end]
    offset = max(0, start - 60)
    word = _WORD.search(lowered(window), start - offset)
    if word is None:
        return None
    first, after = offset + word.start(), offset + word.end()
    suffix = _SUFFIX.match(text, after, min(after + 60, len(text))) if text[after - 1] < "\u2e80" else None
    stop = suffix.end() if suffix else after
    before = text[max(0, first - 40) : first]
    begin = first - len(before) + len(before.rstrip(_NAME_CHARS))
    whole, rest = text[begin:stop], text[after:stop]
    if NOT_SECRET.search(lowered(text[max(0, begin - 12) : stop])) or (rest and not _is_the_value(text, after, rest)):
        return None
    if len(whole) > MAX_NAME and whole.isalnum():  # base64
        return None
    plain = word[0].lower()
    if (
        plain in {"pass", "pat"}
        and re.search(r"[A-Za-z]$", text[max(0, first - 1) : first])
        and not re.match(_PREFIX, whole.lower().lstrip("-_.$"))
    ):
        return None
    is_password = plain in PASSWORD_WORDS or plain in SHORT_WORDS
    return _Name(
        whole, begin, stop, is_password, plain in {"key", "schlüssel", "clé"}, "phrase" in plain or plain in _PHRASES
    )


def _is_the_value(text: str, after: int, suffix: str) -> bool:
    """Return whether a name means the value itself (`password2`) and not a property of it (`password_hash`)."""
    parts = [part.lower() for part in _PARTS.findall(suffix)]
    camel = suffix[0].isupper() and text[after - 1].islower()
    if suffix[0].isalpha() and not camel and (parts[0] if parts else "") not in _ENDINGS:
        return False
    return not any(part in NOT_A_VALUE for part in parts)


def _linked(text: str, name: _Name, link: re.Match[str]) -> Find | None:
    sort, at = link.lastgroup or "", link.end()
    if sort == "call" and not _SETS.search(text[max(0, name.start - 20) : name.end]):
        return None
    if (
        name.text.lower() in {"pass", "pat"}
        and sort not in {"sign", "value", "call", "comma", "tag"}
        and link[0] != " is"
    ):
        return None  # a verb, or part of another word
    quoted = _QUOTED.match(text, at)
    in_query = text[max(0, name.start - 1) : name.start] in {"?", "&", "#"} or text.endswith("&amp;", 0, name.start)
    if quoted:
        first, last = quoted.span(quoted.lastindex or 0)
    else:
        first, last = _bare(text, at, name.is_password, in_query=in_query)
    value, alone = text[first:last], _END.match(text, quoted.end() if quoted else last) is not None
    direct = sort in {"sign", "value", "call", "comma", "tag"}
    if not value or (sort == "tag" and not text.startswith("</", last)) or (sort in {"below", "table"} and not alone):
        return None
    line = text[max(0, name.start - 120) : name.start].rpartition("\n")[2]
    config = _CONFIG.fullmatch(line) is not None
    in_code = sort == "sign" and not quoted and "=" in link[0] and not config and link[0][-1:] == " "
    kind = vendor_of(line + text[name.start : first], value)
    if kind is not None:
        return Find(kind, first, last, likely=not direct)
    if not name.is_password:
        grade = _secret_grade(text, name, first, value, quoted=quoted is not None, direct=direct)
        return Find("secret", first, last, likely=not direct or grade < CERTAIN) if grade else None
    phrase = _PHRASE.match(text, at) if name.is_phrase else None
    if phrase is not None and values.is_passphrase(phrase[0]):
        return Find("password", *phrase.span(), likely=True)
    grade = values.password(value, quoted=quoted is not None, in_code=in_code)
    if not grade and (alone or quoted is not None) and sort not in {"space", "table", "comma", "call"} and not in_code:
        grade = (
            LIKELY
            if values.is_a_word(value)
            and not values.is_stand_in(value)
            and _may_be_a_word(text, sort, link, quoted is not None)
            else NO
        )
    if sort == "space" and quoted is None and re.fullmatch(r"[a-z]+", value):
        grade = NO
    return Find("password", first, last, likely=not direct or grade < CERTAIN) if grade else None


def _secret_grade(text: str, name: _Name, first: int, value: str, *, quoted: bool, direct: bool) -> int:
    grade = values.secret(value, quoted=quoted)
    if name.is_generic or _HASH_BEFORE.search(text[max(0, first - 14) : first].rstrip("\"'")):
        return min(grade, LIKELY) if len(value) >= 20 else NO
    is_uuid = direct and values.UUID.fullmatch(value) is not None  # many vendors use UUIDs as keys
    return grade or (LIKELY if is_uuid else NO)


def _may_be_a_word(text: str, sort: str, link: re.Match[str], quoted: bool) -> bool:
    """Return whether an ordinary word is a password. `link` is what connects the name with the word, such as `:`."""
    if sort in {"sign", "value", "tag"}:
        return quoted or link[0].strip(" \"'`*_])") in {":", "：", "→", "="} or sort == "tag"
    return sort in {"verb", "bracket", "cjk"} or (sort == "far" and ":" in link[0])


def _nearby(text: str, name: _Name) -> Find | None:
    """Find a value later in the sentence, as in `for the password, try Kumquat-9`. It must resemble a password."""
    stop = text.find("\n", name.end, name.end + 120)
    clause = text[name.end : stop if stop >= 0 else name.end + 120]
    over = re.search(r"[.!?][ \t]+(?=[A-ZÄÖÜÉ])|。|[{}();]", clause)
    clause = clause[: over.start() + 1] if over else clause
    tokens = ((match, match[0].rstrip(_TRAILING)) for match in _TOKEN.finditer(clause))
    for match, value in islice(
        (token for token in tokens if token[0].start() and _OF_A_VALUE.search(token[1])), MAX_NEAR
    ):
        if name.is_password:
            grade = values.password(value, quoted=False)
            tied = grade == LIKELY and re.search(
                r"[:：=→\"'`„“«「『]\s?$|(?:is|now|type|enter|try|as|als|comme|ist|auf|est|en|por|a|à|to|用|是|で)\s$",
                clause[max(0, match.start() - 8) : match.start()],
            )
            good = grade == CERTAIN or bool(tied)
        else:
            good = len(value) >= 20 and not name.is_generic and values.secret(value, quoted=False) == CERTAIN
            good = good and not _HASH_BEFORE.search(clause[: match.start()])
        if good:
            at = name.end + match.start()
            kind = vendor_of(text[name.start : at], value) or ("password" if name.is_password else "secret")
            return Find(kind, at, at + len(value), likely=True)
    return None


def _changed(text: str, find: Find) -> Iterator[Find]:
    """Yield the second password in `changed from old to new`, or the password of the next account on the line."""
    if find.kind != "password":
        return
    match = re.compile(
        r"[\"'`”“»]?,?[ ]?(?:to|auf|in|à|en|par|到|改为|改成|变成|から|→|->|/|,[ ]?\w{2,12}[=:])[ ]?[\"'`„“«]?([^\s\"'`<>|、。，]{5,64})"
    ).match(text, find.end)
    if match is not None:
        value = match[1].rstrip(_TRAILING)
        if values.password(value, quoted=False):
            yield Find("password", match.start(1), match.start(1) + len(value), likely=find.likely)


def vendor_of(context: str, value: str) -> str | None:
    """Return the kind of a value that counts only near its vendor's name, such as 32 hex digits after `datadog`.

    Returns None if the context names no such vendor.
    """
    lower = context.lower()
    if not _VENDORS.search(lower) or values.is_stand_in(value):
        return None
    for kind, words, pattern in NAMED:
        if any(word in lower for word in words.split("|")) and re.fullmatch(pattern, value) and len(set(value)) > 5:
            return kind
    return None


def _bare(text: str, at: int, is_password: bool, *, in_query: bool) -> tuple[int, int]:
    """Position of the unquoted value at `at`, without trailing punctuation and without the next `key=value` pair.

    In a query (`?token=...&flag`), the value ends at any `&`.
    """
    if text[at : at + 1] in {'"', "'", "`", "("}:
        at += 1
    match = _BARE.match(text, at, at + (MAX_PASSWORD + 40 if is_password else 4_000))
    if match is None:
        return at, at
    value = match[0]
    pair = re.search("&", value) if in_query else _NEXT_PAIR.search(value)
    if pair is not None:
        value = value[: pair.start()]
    while (
        value
        and value[-1] in _TRAILING
        and not (
            value[-1] in ")]}>"
            and value.count(value[-1]) == value.count({")": "(", "]": "[", "}": "{", ">": "<"}[value[-1]])
        )
    ):
        if value[-1] == "!" and _END.match(text, at + len(value)):
            break  # `Blume77!` at the end of a line
        value = value[:-1]
    return at, at + len(value)
