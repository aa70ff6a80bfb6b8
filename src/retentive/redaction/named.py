"""Passwords and secrets that are recognized by a word near them, such as `password`: in assignments and in prose."""

# ruff: noqa: E501 - a pattern or a list is a line

from __future__ import annotations

import re
from dataclasses import dataclass

from retentive.redaction import checks
from retentive.redaction.checks import CERTAIN, LIKELY, MAX_PASSWORD, NO
from retentive.redaction.rules import Find, data, expanded, lowered

_LISTS = data()["words"]
PASSWORD_WORDS, SHORT_WORDS = frozenset(_LISTS["password"]), frozenset(_LISTS["short"])
# Names, in lower case, of random values that are public or short-lived: `csrf_token`, `next_page_token`, `public_key`.
NOT_SECRET = re.compile(
    r"(?:csrf|xsrf|page|next|continuation|sync|public|publishable|anon|pubkey|partition|primary|foreign|cache|sort|row|dedup"
    r"|idempot\w*|site|object|file|routing|s3|cancel|cancellation|stop|start|end|special|max|min|js|unk|pad|eos|bos|mask"
    r"|lex|separator|num|total|input|output|prompt|completion|host|known)[ _-]?(?:api[ _-]?)?(?:token|key|secret)|minipass|tokens$|tokeniz|bypass"
    r"|(?:range|shard|surrogate|natural|lookup|translation|secondary|candidate|composite|unique|clustering|bucket|dedupe|issue|record|entity|item)[ _-]?key"
    r"|(?:resume|change|concurrency|version|lock|delta|fencing|pagination|paging|checkpoint|ack|client[ _-]?request|client|upload|snapshot|state|etag|cursor)[ _-]?token|opaquelocktoken"
    r"|compass|passage|passive|passing|passed|key ?(?:id|name|word|board|s\b)|access_key_id"
)

NOT_A_VALUE = frozenset(_LISTS["properties"].split())
_GENERIC = {"key", "schlüssel", "clé"}
WORDS = {*PASSWORD_WORDS, *_LISTS["secret"], *_GENERIC}
_SHORT_FOLLOWS = re.compile(r"s?[0-9]{0,2}(?![a-z0-9+/])")
_PREFIX = re.compile(
    r"(?:^|[^a-z]|root|bind|db|mysql|pg|user|admin|store|key|my|ssh|ftp|smtp|sudo|mail|proxy|default|srcstore|deststore|truststore|ldap|vnc|redis|mongo|web|http|app|sys|login|require|ansible_ssh_)\Z"
)
_IN_MARKER = re.compile(r"\[(?i:REDACTED):[a-z0-9_-]*\Z")
_SUFFIX = re.compile(r"(?:[A-Za-zäöüß0-9]|[_.-](?=[A-Za-z0-9])|\[(?=[\"']?[a-z0-9]+[\"']?\])){0,60}")
_NAME_BEFORE = re.compile(r"[A-Za-z0-9_.$-]{0,40}\Z")
_PARTS = re.compile(r"[A-Z]?[a-zäöüß]+|[A-Z]+|\d+")
_ENDINGS = frozenset({"", "s", "es", "e", "en", "er", "n", "in", "base"})
_TYPE = r"(?:[ \t]*:[ \t]*(?:Optional\[)?(?:str|String|string|SecretStr|bytes|&(?:'static )?str|any)\]?(?: ?\| ?(?:None|null|undefined))?(?=[ \t]*=)|[ \t]string(?=[ \t]*=)|\[\d{0,4}\](?=[ \t]*=))?"
# What connects a name with its value, if the value follows directly.
_LINK = re.compile(
    rf"[\"'`*_\])\\」』”»】]{{0,5}}(?:"
    rf"(?P<value>(?:[ \t]*[,;]\s{{0,20}}|\s{{1,20}}|</\w{{1,20}}>\s{{0,20}}<)[\"']?[Vv]alue[\"']?[ \t]?[:=>])"
    rf"|[?:：]?[*_]{{0,2}}[ \t]*(?P<below>\r?\n(?:[ \t]*\r?\n)?[ \t]{{0,12}}(?:[-*>] ?|<?[\w.-]{{1,20}}[>:] ?)?)"
    rf"|{_TYPE}[ \t]{{0,20}}(?P<sign>:=|=>|->|→|={{1,3}}|[:：＝])"
    rf"|(?P<call>\()(?=[rb]?[\"'])|(?P<comma>,[ \t]?(?=[\"']))|(?P<tag>>)(?!>)|[ \t]{{0,3}}(?P<table>\|)"
    rf")[ \t\u3000]{{0,20}}(?:\*{{1,2}}[ \t])?(?:!!str )?"
)
_DIRECT = {"sign", "value", "call", "comma", "tag"}
_QUOTED = re.compile(
    r"[rbuRBU]{0,2}(?:\"((?:[^\"\\\n]|\\.){1,200})\"|'((?:[^'\\\n]|\\.){1,200})'|`([^`\n]{1,200})`|[«「『【“„‘][ \u00a0\u202f]?([^»」』】”“’\n]{1,200}?)[ \u00a0\u202f]?[»」』】”“’]"
    r"|\\+[\"']([^\"'\\\n]{1,200})\\+[\"']|\*\*([^*\s]{1,200})\*\*|__([^_\s]{4,200})__)"
)
_BARE = re.compile(r"[^\s\"'`<>|「」『』【】«»“”„、。，；：！？）（\u3040-\u30ff\u3400-\u9fff]+")
_NEXT_PAIR = re.compile(r"[;&,](?=$|[A-Za-z][\w .-]{0,40}=)|,.*")
_END = re.compile(
    r"[ \t]*(?:$|[\r\n]|[#|/<\"'`),;}\]\\。、，；！）」は」]|--|//|&|[.!](?=[ \t]*(?:$|[\r\n])|[ \t]+[A-ZÄÖÜÉ])|です|でした|に|とのこと|[了哦吧啦呢])"
)
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_@$%/=.-])(?![(\[])[^\s\"'`„“”«»<>|、。，；：！？（）「」『』【】\u3040-\u30ff\u3400-\u9fff]{5,200}"
)
_OF_A_VALUE = re.compile(r"[\d@#$%^&*+~!]|[a-z]-[a-z]+-[a-z]|[a-z][A-Z].*[a-z][A-Z]")
# Words and signs before a value in prose.
_TIE = re.compile(
    r"(?:^\s?|[:=：→–—|?]\s{0,2}|-\s|>\s|['’]s\s|[、\u3040-\u9fff]\s?|(?:[\"'`„“«「『【(]|\*\*)|\b(?:is|was|be|used to be|now|still|to|as|type|enter|try|set|ist|war|lautet|lautete|wird|hei(?:ß|ss)t|jetzt|auf|als|est|en|à|comme|maintenant|es|será|ahora|a|por):?\s)[\"'`„“«*\s\u00a0\u202f]{0,3}\Z",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[.!?][ \t]+(?=[A-ZÄÖÜÉ])|[。{};]")
# A value before its word: `hunter2 is the password`, `Use hunter2 as the password`.
_BEFORE = re.compile(
    r"(?: (?:is|was|as|ist|war|als|est|comme|como) (?:(?:the|our|my|your|a|das|unser|mein|dein|le|la|mon|notre|tu|su) )?(?:[^\s]{1,30} ){0,2}| ?[をはが是为為作用當当做][^\s!-~]{0,12}| \((?:the )?(?:[^\s()]{1,30} ){0,2})\Z"
)
_CONFIG = re.compile(r"[ \t]*(?:[-*+>#;$] ?)?(?:export |set |ENV |ARG |env: )?[\"'`*]{0,2}[\w.-]*")
_HASH_BEFORE = re.compile(
    r"(?:commit|sha-?\d*|md5|hash|digest|checksum|fingerprint|uuid|revision|rev|trace|image|\bid|\bref)\W{0,4}$",
    re.IGNORECASE,
)
_SETS = re.compile(r"(?:set|with|use|using|user|by|define|env)[_.(\"']*$", re.IGNORECASE)
_VENDORS = [(kind, words.split("|"), re.compile(expanded(pattern))) for kind, words, pattern in data()["named"]]
MAX_NAME = 40  # characters; a longer name without `_` or other signs is base64
_CLAUSE_CHARS = 120  # after a word
MAX_IN_PROSE = 64  # characters of a password in a sentence
_MAX_NEAR = 3  # possible values that are examined after a word
_QUOTES = tuple("\"'`”“»」』】")
_TRAILING = ".,;:)]}'\\?*>!"


@dataclass(frozen=True, slots=True)
class _Name:
    """Name of a value in a text. It contains a word for a password or secret, as in `DB_PASSWORD` or `api key`."""

    text: str
    start: int
    end: int
    is_password: bool
    is_generic: bool  # a name that ends with `key`; many values with such names are not secrets


def find(text: str, start: int, end: int) -> tuple[list[Find], int]:
    """Return the value after a word such as `password` or `token`, or before it, and the end of the name or value."""
    name = _name(text, start, end)
    if name is None:
        return [], end
    link = _LINK.match(text, name.end)
    found, stop = _linked(text, name, link) if link is not None else (None, name.end)
    if found is None and (not name.text.lower().endswith("pass") or text.startswith(" is ", name.end)):  # or a verb
        found = _in_clause(text, name) or _before(text, name)
    if found is None:  # what is in a long value is not examined once more, which would take time in its square
        return [], stop if stop > name.end + MAX_PASSWORD else name.end
    return [found], name.end if found.likely else max(found.end, name.end)


def _name(text: str, start: int, end: int) -> _Name | None:
    word = lowered(text[start:end])
    before = text[max(0, start - 50) : start]
    if _IN_MARKER.search(before):  # the line below `[REDACTED:password]` is no value
        return None
    if word in SHORT_WORDS and not (
        _PREFIX.search(lowered(before)) and _SHORT_FOLLOWS.match(lowered(text[end : end + 6]))
    ):
        return None  # part of another word
    if word == "key" and before[-1:] not in {" ", "_", "-"}:
        return None
    stop = _SUFFIX.match(text, end).end() if word[-1] < "\u2e80" else end  # type: ignore[union-attr] # it may be empty
    begin = start - len(_NAME_BEFORE.search(before)[0])  # type: ignore[index] # as above
    whole, rest = text[begin:stop], text[end:stop]
    if NOT_SECRET.search(lowered(text[max(0, begin - 12) : stop])) or (rest and not _is_the_value(text, end, rest)):
        return None
    if len(whole) > MAX_NAME and whole.isalnum():  # base64
        return None
    is_password = word in PASSWORD_WORDS
    return _Name(whole, begin, stop, is_password, word in _GENERIC)


def _is_the_value(text: str, after: int, suffix: str) -> bool:
    """Return whether a name means the value itself (`password2`) and not a property of it (`password_hash`)."""
    parts = [part.lower() for part in _PARTS.findall(suffix)]
    is_camel = suffix[0].isupper() and text[after - 1].islower()
    if suffix[0].isalpha() and not is_camel and (parts[0] if parts else "") not in _ENDINGS:
        return False
    return not any(part in NOT_A_VALUE for part in parts)


def _linked(text: str, name: _Name, link: re.Match[str]) -> tuple[Find | None, int]:
    """Return the value that directly follows a name and a sign, such as `=`, and the end of what may be a value."""
    sort, at = link.lastgroup or "", link.end()
    is_direct = sort in _DIRECT
    if sort == "call" and not _SETS.search(text[max(0, name.start - 20) : name.end]):
        return None, name.end
    if name.text.lower() in {"pass", "pat"} and not is_direct:
        return None, name.end  # a verb, or part of another word
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        first, last = quoted.span(quoted.lastindex or 0)
    else:
        in_query = text[max(0, name.start - 1) : name.start] in {"?", "&", "#"} or text.endswith("&amp;", 0, name.start)
        first, last = _bare(text, at, name.is_password, in_query=in_query)
    value = text[first:last]
    is_alone = _END.match(text, quoted.end() if quoted else last) is not None
    if not value or (sort == "tag" and not text.startswith("</", last)) or (not is_direct and not is_alone):
        return None, last
    line = text[max(0, name.start - 120) : name.start].rpartition("\n")[2]
    kind = _vendor_of(line + text[name.start : first], value)
    if kind is not None:
        return Find(kind, first, last, likely=not is_direct), last
    if name.is_password:
        in_code = sort == "sign" and not quoted and link[0][-2:] == "= " and not _CONFIG.fullmatch(line)
        grade, kind = checks.password(value, quoted=quoted is not None, in_code=in_code), "password"
    else:
        grade, kind = checks.secret(value, quoted=quoted is not None), "secret"
        if name.is_generic or _HASH_BEFORE.search(text[max(0, first - 14) : first].rstrip("\"'")):
            grade = min(grade, LIKELY) if len(value) >= 20 else NO
        elif is_direct and grade == NO and checks.UUID.fullmatch(value):
            grade = LIKELY  # many vendors use UUIDs as keys
    return (Find(kind, first, last, likely=not is_direct or grade < CERTAIN) if grade else None), last


def _in_clause(text: str, name: _Name) -> Find | None:
    """Return a value later in the sentence, as in `The password of the wifi is Kumquat-9`."""
    clause = text[name.end : name.end + _CLAUSE_CHARS].partition("\n")[0]
    over = _CLAUSE_END.search(clause)
    clause = clause[: over.start() + 1] if over else clause
    near = 0
    for match in _TOKEN.finditer(clause):
        is_quoted = clause[match.end() : match.end() + 1] in _QUOTES
        value = match[0] if is_quoted else match[0].rstrip(_TRAILING)
        if not _OF_A_VALUE.search(value):
            continue
        near += 1
        if near > _MAX_NEAR:
            break
        before = clause[: match.start()]
        if _HASH_BEFORE.search(before) or (not before and text[name.end - 1] < "\u2e80"):  # a longer name
            continue
        at = name.end + match.start()
        kind = _vendor_of(text[max(0, name.start - 120) : at].rpartition("\n")[2], value)
        if kind is None and name.is_password:
            grade = checks.password(value, quoted=False) if len(value) <= MAX_IN_PROSE else NO
            kind = "password" if grade == CERTAIN or (grade and _TIE.search(before)) else None
        elif kind is None and len(value) >= 16 and not name.is_generic:
            kind = "secret" if checks.secret(value, quoted=False) == CERTAIN else None
        if kind is not None:
            return Find(kind, at, at + len(value), likely=True)
    return None


def _before(text: str, name: _Name) -> Find | None:
    """Return a value that precedes its word, as in `Kumquat-9 is the password`."""
    line = text[max(0, name.start - 140) : name.start].rpartition("\n")[2]
    link = _BEFORE.search(line)
    match = re.search(r"[!-~]{5,}\Z", line[: link.start()].rstrip("\"'`”“»』」")[-MAX_IN_PROSE:]) if link else None
    if match is None:
        return None
    value = match[0].lstrip("\"'`(").rstrip(".,;:)")
    grade = checks.password(value, quoted=False) if name.is_password else checks.secret(value, quoted=False)
    follows = re.match(r"[ ]([a-z]+)", text[name.end : name.end + 40])
    if not grade or (follows is not None and follows[1] in NOT_A_VALUE):  # `is the password policy`
        return None
    at = text.rindex(value, 0, name.start)
    return Find("password" if name.is_password else "secret", at, at + len(value), likely=True)


def _vendor_of(context: str, value: str) -> str | None:
    """Return the kind of a value that counts only near its vendor's name, such as 32 hex digits after `datadog`.

    Returns None if the context names no such vendor.
    """
    lower = context.lower()
    for kind, words, pattern in _VENDORS:
        if any(word in lower for word in words) and pattern.fullmatch(value) and len(set(value)) > 5:
            return None if checks.is_stand_in(value) else kind
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
    while value and value[-1] in _TRAILING:
        closes = value[-1] in ")]}>" and value.count(value[-1]) == value.count("([{<"[")]}>".index(value[-1])])
        if closes or (value[-1] == "!" and _END.match(text, at + len(value))):
            break  # `Blume77!` at the end of a line
        value = value[:-1]
    return at, at + len(value)
