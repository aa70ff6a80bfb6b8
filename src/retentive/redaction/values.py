"""Grades of values after words such as `password` or `token`: a certain secret, a likely secret, or ordinary text."""

# ruff: noqa: E501 - a pattern or a list is a line

from __future__ import annotations

import re
from itertools import pairwise

from retentive.redaction.checks import entropy, has_row, is_random, is_scrambled
from retentive.redaction.words import NOT_VALUES, is_placeholder

NO, LIKELY, CERTAIN = 0, 1, 2
MAX_PASSWORD = 200  # characters
MIN_SECRET = 12  # characters; a shorter text may be an ordinary name
_CODE = re.compile(
    r"(?:[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)+[\]),;(!]*"  # config.password
    r"|!?&?\*?[A-Za-z_$][\w$.:]{0,60}[(\[{].*"  # get_password()
    r"|[({\[].*|&?'?\w+ str|\.\.\.|=.*|->.*|\\.*|!(?:vault|ref|sub|secret|env|getatt|include)\w*|\|-?|>-?|[A-Za-z_]\w*[,;)]+)",
    re.DOTALL,
)
_SENTENCE_LIKE = re.compile(r"(?=.*\d)[A-Z][A-Za-z0-9]*\.[A-Z0-9][A-Za-z0-9]*")  # Apple.Pie4, not a member of an object
_PATH = re.compile(
    r"[a-z][a-z0-9+.-]*://|\.{0,2}/[\w.-]|//|~/|[A-Za-z]:\\|@?[\w.-]+(?:/[\w.@-]+)+(?:#[\w-]*)?$|#[a-z]+(?:[_-][a-z0-9]+)+$|[\w-]+\.(?:txt|ya?ml|json|env|md|py|js|ts|html?|php|ini|cfg|toml|pem|key|gpg|kdbx?|asc|log|sh|com|org|net|io|dev|so|c|h|go|rs|css|xml|po)$"
)
_HASH = re.compile(
    r"^\$(?:2[abxy]?|1|5|6|7|y|argon2\w*|pbkdf2[\w-]*|scrypt)\$|\{(?:SSHA|SHA|CRYPT|PBKDF2)|(?:pbkdf2|scrypt|argon2|bcrypt|sha(?:1|256|384|512)|md5|blake2b)[\w$]*[$:=-]|SCRAM-SHA|^h1:|^ssh-|^Ag[A-D][A-Za-z0-9+/]{200}",
    re.IGNORECASE,
)
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|[a-z]+@[a-z]+")
# Versions, sizes, dates, algorithms, keyboard shortcuts: `^7.0.4`, `>=2,<3`, `2026-Q3`, `sha256`, `12px`, `ctrl+c`.
_MEASURE = re.compile(
    r"[<>=~^!]*v?\d+(?:[-.,/:_x+*]\w{1,4})*(?:[%€$+]|-?(?:bits?|bytes?|chars?|characters?|days?|hours?|minutes?|digits?|months?|times?|zeichen|tage))?(?:,?[<>=~^!]+v?[\d.*]+)*"
    r"|(?:sha|aes|md|rsa|base|pbkdf|argon|bcrypt|utf|ascii|oauth|http|ipv|rfc|ed|tls|ssl|hs|rs|es|hmac|iso|cp|latin|x|win|python|php|java|log4j|neo4j|k8s|i18n|l10n|2fa|mfa|totp|pkcs|socksv|[qh])[-_ #]?\d{1,5}(?:[-_.][a-z0-9]{1,12}){0,3}|(?:strg|ctrl|cmd|alt|shift|umschalt)\+.*|1password\w*",
    re.IGNORECASE,
)
# Numbered names and dated words: `user2`, `step-3`, `order-2026-03`, `Conv2d`, `param_1`.
_NUMBERED = re.compile(
    r"[A-Za-z]{1,2}\d{1,3}[a-z]?|[A-Za-z]+[12]|[A-Za-z]?\d+(?:[-.]\d+)*[A-Za-z]?|[a-z_]*_\d{1,3}"
    r"|(?:step|section|part|page|chapter|line|version|type|level|option|note|issue|figure|table|arg|str|param|var|val|tmp|test|field|user|item|node|host|server|day|week|col|order|web|auth)[-_ ]?v?\d{1,4}(?:[-.]\d+)*[a-z]?",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?:Key|Token|Secret|Types?|Client|Name|Path|File|Class|Error|Config|Provider|Manager|Service|Handler|Request|Response|Exception)s?$|^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$|^0x|^arn:|^urn:"
)
_RULES = re.compile(
    r"[\w:,]+(?:\|[\w:,.]+)+|(?:min|max|size):\d+|(?:--?)?(?:[a-z][a-z_-]+|[A-Z_]{3,})=[\w.-]*|@[A-Za-z_]\w*(?:=.*)?|,.*|\d{4}-\d\d-\d\d(?:T[\d:.Z+-]+)?"
)
_PROGRAM_TEXT = re.compile(r"%0A|\\[sdw][*+]|;--")
_FORMAT = re.compile(r"%%|%0A|%[sdu](?![A-Za-z0-9])")
_BRACKETS = re.compile(r"[()\[\]{}<>]")
_SIGNS, _EDGE = re.compile(r"[@#$%^&*!+=~?]"), re.compile(r"^\W+|\W+$")
# Public ids: of an API key, a tool call, a memory, a message.
_PUBLIC_ID = re.compile(r"(?:apikey|memstore|memver|mem|(?:srv|mcp)?toolu|msg|req|call|resp)_[0-9A-Za-z]+")
_SECRET_WORD = re.compile(r"passw|passphrase|pwd|secret|token|credential|kennwort", re.IGNORECASE)


def is_stand_in(text: str) -> bool:
    """Return whether a text only stands for a value: a placeholder, a state, a marker, or one repeated character."""
    plain = _EDGE.sub("", text).lower()
    return not plain or is_placeholder(text) or plain in NOT_VALUES or len(set(plain)) < 2


def secret(text: str, *, quoted: bool = True) -> int:
    """Return the grade of a value that follows a word for a key, token or secret. Secrets are long and random.

    The cheapest checks come first, because nearly all values are ordinary words.
    """
    if not MIN_SECRET <= len(text) <= 4000 or " " in text or text.isdigit() or text.count("=") > 4:
        return NO
    if not is_unlike_words(text) or not is_random(text) or UUID.fullmatch(text) or _PUBLIC_ID.fullmatch(text):
        return NO
    if not quoted and (_BRACKETS.search(text) or _CODE.fullmatch(text)):
        return NO
    if _HASH.search(text) or _PATH.match(text) or _EMAIL.fullmatch(text) or _MEASURE.fullmatch(text):
        return NO
    if _NUMBERED.fullmatch(text) or _NAME.search(text) or _PROGRAM_TEXT.search(text) or is_stand_in(text):
        return NO
    least = 20 if re.fullmatch("[0-9a-f]+", text) else 16  # 16 hex digits can as well be the key of a database row
    return CERTAIN if len(text) >= least else LIKELY


def is_unlike_words(text: str) -> bool:
    """Return whether the mix of characters is unlike that of words, names and numbers."""
    core = text.rstrip("=")
    if re.fullmatch(r"[0-9a-fA-F]+", core):
        mixed = re.search(r"\d", core) is not None and re.search(r"[a-fA-F]", core) is not None
        return len(core) >= 16 and mixed and entropy(core.lower()) > 2.5
    sorts = sum(bool(re.search(sort, core)) for sort in (r"[a-z]", r"[A-Z]", r"\d"))
    if sorts < 2 or entropy(core) < (2.9 if len(core) < 20 else 3.3):
        return False
    return (len(core) >= 20 or re.search(r"\d", core) is not None) and is_scrambled(core)


def password(text: str, *, quoted: bool, in_code: bool = False) -> int:
    """Return the grade of a value that follows a word for a password.

    The grade is at least LIKELY if the value is not a word, a number or program code.
    """
    if (
        not 4 <= len(text) <= MAX_PASSWORD
        or " " in text
        or is_stand_in(text)
        or _HASH.match(text)
        or _EMAIL.fullmatch(text)
    ):
        return NO
    if _PATH.match(text) or _RULES.fullmatch(text) or _NAME.search(text) or UUID.fullmatch(text):
        return LIKELY if UUID.fullmatch(text) and not in_code else NO
    if not quoted and _BRACKETS.search(text):
        return NO
    if not quoted and _CODE.fullmatch(text) and not _SENTENCE_LIKE.fullmatch(text):
        return NO
    if _MEASURE.fullmatch(text):
        return LIKELY if re.fullmatch(r"\d{6,24}", text) else NO
    return _by_its_characters(text, quoted=quoted, in_code=in_code)


def _by_its_characters(text: str, *, quoted: bool, in_code: bool) -> int:
    sorts = sum(bool(re.search(sort, text)) for sort in (r"[a-z]", r"[A-Z]", r"\d", r"[@#$%^&*!+=~?]"))
    if _PROGRAM_TEXT.search(text) or (_SECRET_WORD.search(text) and sorts < 3):
        return NO  # db_password, passwords.reset
    mixed = len(text) >= 8 and sorts >= 3 and re.search(r"\d", text) and re.search("[A-Za-z]", text)
    if mixed and (_SIGNS.search(text[1:]) or (is_scrambled(text) and len(text) >= 10)):
        return NO if in_code and not quoted else CERTAIN
    if secret(text, quoted=quoted) == CERTAIN:
        return CERTAIN
    return LIKELY if _is_unlike_a_word(text) and not _FORMAT.search(text) else NO


def _is_unlike_a_word(text: str) -> bool:
    if len(text) < 5 or _NUMBERED.fullmatch(text) or has_row(text.lower(), 9):
        return re.fullmatch(r"[A-Za-z]{4,}\d{2,4}|[A-Za-z]{5,}\d", text) is not None
    if re.search(r"[A-Za-z]", text) is None:
        return len(_SIGNS.findall(text)) >= 1 and len(set(text)) >= 5
    if re.search(r"\d", text) or _SIGNS.search(text[1:-1]):
        return True
    parts = re.split(r"[-_.]", text.lower())
    chain = len(parts) >= 4 and all(re.fullmatch(r"[a-z]{3,10}", part) for part in parts)
    turns = (
        sum(one.islower() != two.islower() for one, two in pairwise(text)) if text.isalpha() and text.isascii() else 0
    )
    return chain or (turns >= 4 and len(text) >= 8)
