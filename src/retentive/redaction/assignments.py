"""Passwords and secrets after a word for them: in configuration, code, tables, and prose in five languages."""

# ruff: noqa: E501 - a pattern or a list is a line

from __future__ import annotations

import re
from collections.abc import Iterator

from retentive.redaction.checks import is_scrambled
from retentive.redaction.plausibility import MIN_SECRET, Value, is_passphrase, is_password, is_secret
from retentive.redaction.rules import Find
from retentive.redaction.sentences import MIN_LONG, find_more, find_nearby
from retentive.redaction.tables import find_around
from retentive.redaction.tokens import UUID
from retentive.redaction.words import NOT_A_VALUE, PASSWORD_WORDS, SECRET_WORDS

WORDS = {**dict.fromkeys(SECRET_WORDS, "secret"), **dict.fromkeys(PASSWORD_WORDS, "password")}
_SHORT = frozenset(
    {"pass", "pw", "psw", "pwd", "psk", "mdp", "_auth", "senha", "token", "pat"}
)  # also occur inside other words
_IN_PROSE = frozenset({"pass", "パス"})  # also ordinary words: they mean a password only before a sign
_NO_PASS = re.compile(
    r"(?:by|com|sur|tres|over|under|encom|multi|single|two|one|first|second|last|full|low|high|band)[_-]?$",
    re.IGNORECASE,
)
_MORE_CJK = re.compile(r"(?:キー|コード|文字列|短语|短語|の値|的值)")  # suffixes that extend a word in kanji or kana

_SUFFIX = re.compile(r"(?:[A-Za-zäöüß0-9]|[_.-](?=[A-Za-z0-9])|\[(?=[\"']?[a-z0-9]+[\"']?\]))*")
_PARTS = re.compile(r"[A-Z]?[a-zäöüß]+|[A-Z]+|\d+")
_CJK = "\u2e80"  # from here on, words have no spaces between: a letter of another script belongs to the value
_ENDINGS = frozenset({"", "s", "es", "e", "en", "er", "n", "in"})

_FOR = r"(?i:for|of|to|on|at|in|from|here|now|für|fuer|zum|zur|vom|von|der|des|im|am|auf|bei|pour|du|de|des|sur|à|au|aux|d['’]\w+|wi-?fi|wlan|root|admin|actuel|[(\[])"
_GAP_WORD = r"[^\s:=：|;!?]{0,40}[^\s:=：|;!?.,]"
_GAP = rf"(?:[ \t]{{1,3}}(?={_FOR}){_GAP_WORD}(?:[ \t]{_GAP_WORD}){{0,6}}?|[ \t]?の[^\s:=：はが]{{0,20}})?"
_NOW = r"(?: (?:now|still|currently|set to|just|simply|again|temporarily|jetzt|nun|aktuell|derzeit|weiterhin|maintenant|désormais|actuellement|toujours))?(?: set to)?"
_TYPE = r"(?:[ \t]*:[ \t]*(?:Optional\[)?(?:str|String|string|SecretStr|bytes|&(?:'static )?str|Secret<String>|any)(?:\])?(?: ?\| ?(?:None|null|undefined))?(?=[ \t]*=)|[ \t]string(?=[ \t]*=)|[ \t]*:[ \t]*[A-Z][\w.\[\]]{1,30}(?=[ \t]*=[ \t]*[\"'])|[ \t]?\{ ?get; ?(?:private )?(?:set|init); ?\}(?=[ \t]*=)|\[\d{0,4}\](?=[ \t]*=))?"


def _link(gap: str) -> re.Pattern[str]:
    """Pattern of the sign between a word and its value, after a gap."""
    return re.compile(
        rf"[\"'`*_\])\\」』”»]{{0,5}}(?:"
        rf"(?:{_TYPE}|{gap})[ \t]{{0,20}}(?P<equal>:=|=>|===?|!==?|\?=|\+=|=|＝)"
        rf"|{gap}[ \t\u3000]{{0,20}}(?P<colon>:|：|—|–(?= )|->|→)"
        rf"|{gap}(?:,?[ \t]{{1,3}}|(?=['’]s))(?P<word>(?:['’]s|[-–—]|used to be|had been|which (?:is|was)|it is|it['’]s|(?:is|was|has been|will be|should be|remains|becomes|lautet|lautete|ist|war|wird|wäre|bleibt|hei(?:ß|ss)t|est|était|sera|serait|reste|vaut|devient){_NOW}|(?:set |changed |reset |updated |rotated )?to|auf|c'est|equals|(?:a été |est )?(?:changé|modifié|remplacé) (?:en|par|à)|has been (?:set|changed) to)(?::|[ ]?\n)?(?=[ \t]))"
        r"|[ \t]?(?P<kanji>は、?|が|を|(?:还|還|应该|應該|好像|可能|暂时|暫時|现在|現在|已|已经|已經|就|都|仍)?(?:是|为|為|用)|(?:已|已经|已經)?(?:[改设設换換变變]|设置|設置|設定|更改|重置|更新|变更|變更|修改)(?:为|為|成|成了|到))了?(?:[ \t]?[:：])?"
        r"|(?P<block>[ \t]?\{[^{}\n]{0,80}\n[^{}]{0,300}?\bdefault[ \t]*=(?=[ \t]*\"))"
        r"|(?P<call>\()(?=[\"'])"
        r"|(?P<value>(?:[ \t]*[,;]\s{0,20}|\s{1,20}|</\w{1,20}>\s{0,20}<)[\"']?[Vv]alue[\"']?[ \t]?[:=>])"
        r"|[ \t]{0,30}(?P<table>\|)(?=[ \t]|[^|\n]{4,80}\|)"
        r"|(?P<tag>>)(?!>)"
        r"|[ \t]?(?P<comma>,)"
        r"|(?P<bracket>(?=[「『“]))"
        r"|(?P<direct>(?<=[\u3040-\u9fff])(?=[A-Za-z0-9]))"
        r"|(?P<space>[ \t]{1,20}\(?)"
        r")"
        r"[ \t\u3000]{0,20}(?:\*{1,2}[ \t])?(?:</?\w{1,10}>[ \t]?)?(?:!!str )?"
    )


# Most words have no gap after them, and the pattern without one is ten times faster.
_HAS_GAP = re.compile(rf"[\"'`*_\])\\」』”»]{{0,5}}(?:[ \t]{{1,3}}{_FOR}|[ \t]?の)")
_LINK, _LINK_AT_ONCE = _link(_GAP), _link("")
_QUOTED = re.compile(
    r"[rbuRBU]{0,2}(?:\"(?P<a>(?:[^\"\\\n]|\\.){1,200})\"|'(?P<b>(?:[^'\\\n]|\\.){1,200})'|`(?P<c>[^`\n]{1,200})`"
    r"|«[ \u00a0\u202f]?(?P<d>[^»\n]{1,200}?)[ \u00a0\u202f]?»|「(?P<e>[^」\n]{1,200})」|『(?P<f>[^』\n]{1,200})』"
    r"|[“„](?P<g>[^”“\n]{1,200})[”“]|‘(?P<h>[^’\n]{1,200})’|\\+[\"'](?P<i>[^\"'\\\n]{1,200})\\+[\"']|\*\*(?P<j>[^*\s]{1,200})\*\*)"
)
_BARE = re.compile(r"[^\s\"`<|「」『』«»“”„、。，；：！？）（\u3040-\u30ff\u3400-\u9fff]{1,400}")
_NEXT_PAIR = re.compile(r"[;&,](?=$|[A-Za-z][\w .-]{0,40}=)")
_UUID = re.compile(UUID)
_OF_ENV = re.compile(r"(?<!CSRF)(?<!SESSION)(?<!REQUEST)(?<!PAGE)(?<!NEXT)(?<!TRACE)_$")  # CODECOV_TOKEN
_KEEPS = re.compile(r"api|auth|access|bot|server|personal|secret|service|deploy|admin", re.IGNORECASE)
_PHRASE = re.compile(r"[a-z]{3,10}(?: [a-z]{3,10}){3,9}(?=\.?[ \t]*(?:$|[\r\n]))")
_TRAILING = ".,;:)]}'\\?*>"
_REST = re.compile(
    r"[ \t]*(?:$|[\r\n]|[#|/<\"'`),;}\]\\。、，；！）」は]|--|//|&|[.!](?=[ \t]*(?:$|[\r\n])|[ \t]+[A-ZÄÖÜÉ])|です|でした|だよ|だ。|に(?:変更|設定|決ま|なり|し)|とのこと|[了哦吧啦呢](?![\u4e00-\u9fff]))"
)


_ONLY_TIES = frozenset({"to", "auf", "-", "–", "—"})  # too common in prose: the value must not be a single word
_SETS = re.compile(r"(?:set|with|use|using|user|by)_?$", re.IGNORECASE)  # set_password("..."), withPassword("...")


_LINE_BEFORE = re.compile(r"\n[ \t]*\Z")
_FIGURE, _LETTER = re.compile("[0-9]"), re.compile("[A-Za-z]")
_LONG = re.compile(rf"[A-Za-z+/_-]{{{MIN_LONG},}}")


def _has_secret_near(text: str, at: int) -> bool:
    """Return whether text near a position is long and mixed enough for a secret. A cheap test that skips most words."""
    for piece in [piece for piece in text[max(0, at - 160) : at + 300].split() if len(piece) >= MIN_SECRET]:
        if _FIGURE.search(piece):
            if _LETTER.search(piece):
                return True
        elif len(piece) >= MIN_LONG and any(map(is_scrambled, _LONG.findall(piece))):
            return True
    return False


def then(word: str) -> str:
    """RE2 pattern for the text after a word: a short word must not be part of a longer one."""
    return "[^A-Za-z]" if word in _SHORT and word.isascii() and word != "token" else ""


def find_values(text: str, start: int, word: str) -> Iterator[Find]:
    """Passwords or the secret that the word at `start` introduces."""
    after = start + len(word)
    if not _is_a_word(text, start, after, word):
        return
    if word == "token" and text[start - 1 : start] == "_" and text[after : after + 1] == "s":
        return  # max_tokens is a count
    if word == "pass" and text[after : after + 1] == "\n" and _LINE_BEFORE.search(text, max(0, start - 80), start):
        return  # the Python statement `pass`
    suffix = _SUFFIX.match(text, after, min(after + 60, len(text))) if text[after - 1] < _CJK else None
    end = suffix.end() if suffix else after
    if not suffix:
        longer = _MORE_CJK.match(text, after)
        end = longer.end() if longer else after
    if not _is_about_a_value(text, after, end) or (WORDS[word] == "secret" and not _has_secret_near(text, start)):
        return
    link = (_LINK if _HAS_GAP.match(text, end) else _LINK_AT_ONCE).match(text, end)
    find = _checked(text, word, start, end, link) if link else None
    if find is not None:
        yield find
        yield from find_more(text, end, find)
        return
    around = list(find_around(text, start, end, WORDS[word]))
    if around or word in _IN_PROSE:
        yield from around
    else:
        yield from find_nearby(text, end, word, WORDS[word])


def _checked(text: str, word: str, start: int, end: int, link: re.Match[str]) -> Find | None:
    sort = link.lastgroup or ""
    sort = {"kanji": "word", "value": "equal", "block": "equal", "bracket": "word", "direct": "space"}.get(sort, sort)
    if sort == "call" and not _SETS.search(text[max(0, start - 20) : start]):
        return None
    if sort == "tag" and "<" not in text[max(0, start - 40) : start]:
        return None
    if sort == "comma" and text[end : end + 1] not in {'"', "'"} and not _starts_line(text, start):
        return None
    is_option = word == "pass" and re.search(r"(?:^|\s)--?[A-Za-z-]*$|[A-Z0-9]_$", text[max(0, start - 20) : start])
    if word == "pass" and not is_option and (sort in {"comma", "space"} or (sort == "word" and " is" not in link[0])):
        return None
    kind, at = WORDS[word], link.end()
    phrase = _PHRASE.match(text, at) if word == "passphrase" and sort in {"colon", "equal"} else None
    if phrase is not None and is_passphrase(phrase[0]):
        return Find("password", *phrase.span())
    quoted = _QUOTED.match(text, at)
    first, last = quoted.span(quoted.lastgroup) if quoted and quoted.lastgroup else _bare(text, at)
    if (sort == "comma" and quoted is None and not _is_row(text, link.end(), last)) or (
        sort == "tag" and not text.startswith("</", last)
    ):
        return None
    alone = _ends(text, quoted.end() if quoted else last) and link[0].strip() not in _ONLY_TIES
    if _is_plain(text[first:last], kind, sort, quoted=quoted is not None or (alone and sort == "word")):
        return None
    value = Value(
        text=text[first:last],
        link="equal" if sort in {"tag", "call"} else sort,
        quoted=quoted is not None,
        alone=alone,
        tight=at == link.start(sort) + 1 and text[at - 1].isascii() if sort in {"equal", "colon"} else False,
        config=_starts_line(text, start),
    )
    named = text[max(0, start - 20) : start]
    if word == "token" and _UUID.fullmatch(value.text) and not (_KEEPS.search(named) or _OF_ENV.search(named)):
        return None  # most are tokens of a page or a request
    good = is_password(value) if kind == "password" else is_secret(value)
    return Find(kind, first, last) if good else None


def _ends(text: str, at: int) -> bool:
    """Return whether the value ends its line, clause or sentence."""
    return _REST.match(text, at) is not None


def _is_row(text: str, first: int, last: int) -> bool:
    """Return whether a value follows its comma directly and ends its line, as in CSV."""
    return text[first - 1] == "," and text[last : last + 1] in {"", "\n", "\r"}


def _is_plain(value: str, kind: str, sort: str, *, quoted: bool) -> bool:
    """Return whether the text is clearly not a value: a word of prose, or too short for a secret."""
    if kind == "secret":
        return len(value) < MIN_SECRET
    return not value or (sort in {"space", "comma", "word"} and not quoted and value.isalpha() and value[1:].islower())


def _is_a_word(text: str, start: int, after: int, word: str) -> bool:
    """Return whether the match is a whole word, unlike `pass` in `compass` or `pw` in `pwd`."""
    before = text[start - 1] if start else " "
    follows = text[after : after + 1]
    if word == "パス":
        return not ("ァ" <= before <= "ー" or "ァ" <= follows <= "ー")
    if word not in _SHORT or not word.isascii():
        return True
    if not before.isascii():
        before = " "
    if not follows.isascii():
        follows = " "
    if word in {"pw", "pwd", "psw"} and before.isalpha():  # rootpw, bindpw
        return follows in {"=", ":", " ", '"', "'"}
    if word == "pass" and before.isalpha():  # MYSQLPASS, dbpass, storepass
        return not follows.isalpha() and _NO_PASS.search(text[max(0, start - 10) : start]) is None
    if word != "token" and before.isalpha() and not (before.islower() and text[start].isupper()):
        return False
    return word == "token" or not follows.isalpha()


def _is_about_a_value(text: str, after: int, end: int) -> bool:
    """Return whether a name means the value itself (`password2`) and not a property of it (`password_hash`)."""
    suffix = text[after:end]
    if not suffix:
        return True
    parts = [part.lower() for part in _PARTS.findall(suffix)]
    first = parts[0] if parts else ""
    camel = suffix[0].isupper() and text[after - 1].islower()
    if suffix[0].isalpha() and not camel and first not in _ENDINGS:
        return False
    return not any(part in NOT_A_VALUE for part in parts)


def _bare(text: str, at: int) -> tuple[int, int]:
    """Span of the unquoted value at `at`, without trailing punctuation and the next `key=value` pair."""
    if text[at : at + 1] in {'"', "'", "`"}:
        at += 1
    match = _BARE.match(text, at)
    if match is None:
        return at, at
    value = match[0]
    pair = _NEXT_PAIR.search(value)
    if pair is not None:
        value = value[: pair.start()]
    while value and value[-1] in _TRAILING and not _closes(value):
        value = value[:-1]
    return at, at + len(value)


def _closes(value: str) -> bool:
    """Return whether the last character closes a bracket that was opened in the value."""
    pairs = {")": "(", "]": "[", "}": "{", ">": "<"}
    opened = pairs.get(value[-1])
    return opened is not None and value.count(opened) >= value.count(value[-1]) > 0


def _starts_line(text: str, start: int) -> bool:
    """Return whether only an indent, a dash, `export` or the start of the name precedes the word on its line."""
    line = text[max(0, start - 80) : start]
    line = line[line.rfind("\n") + 1 :]
    return (
        re.fullmatch(r"[ \t]*(?:[-*+>#;] ?)?(?:export |set |SET |ENV |ARG |env: )?[\"'`*]{0,2}[\w.-]*", line)
        is not None
    )
