"""Checks that a pattern cannot express: checksums, headers, randomness, and grades of values after words.

A value after a word such as `password` or `token` is a certain secret, a likely secret, or ordinary text.
"""

# ruff: noqa: E501 - a pattern or a list is a line

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import string
import zlib
from collections.abc import Callable
from itertools import pairwise

from retentive.redaction.rules import data

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MARKS = re.compile("example|your[_-]|yourapi|yourtoken|yourkey|placeholder|redacted|dummy")
_PREFIX = re.compile(r"^[A-Za-z]{2,12}[-_.]")
_HEX = re.compile(r"[0-9a-fA-F.:_-]+")
_ROWS = f"{string.digits}{string.digits} {string.ascii_lowercase}"
_WORD = re.compile(r"[A-Z]?[a-z]{4,}|[A-Z]{5,}")
_UNSPEAKABLE = re.compile(r"[^aeiouyAEIOUY]{4}(?<!ngth)(?<!ghts)(?<!nstr)|^(.)\1|[jqxzJQXZ].?[jqxzkwJQXZKW]")
_VOWEL = re.compile(r"[aeiouyAEIOUY]")
_SAMPLE_CHARS = 400  # characters from the start of a value that are checked for randomness
_MAX_RUN = 7  # characters; a longer run, such as 12345678, was typed and is not random

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
# Names of classes, members and constants, and of resources. A value with other signs in it is no name.
_NAME = re.compile(
    r"[\w$.:\\/-]*(?:Key|Token|Secret|Types?|Client|Name|Path|File|Class|Error|Config|Provider|Manager|Service|Handler|Request|Response|Exception)s?|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|(?:arn|urn):[a-z0-9-]+:.*",
    re.DOTALL,
)
_HEX_NUMBER = re.compile(r"0x[0-9a-f]{1,40}", re.IGNORECASE)  # a longer one is no number and no address
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

NOT_VALUES = frozenset(data()["words"]["not_values"].split())
_STANDS_FOR = re.compile(
    r"""^(?:[<\[{(].*[>\]})]|\$\{.*|\$[A-Za-z_][\w:]*(?:->.*|\[.*|\.\w.*)?|%[sdr]|%\(.*|%\w+%|%\{.*|\{\{.*|[*xX•·.#_?-]+|\\?[$@]\(.*|<.*|.*\{\{.*|.*\$\{.*|.*\}\}.*|.*<[\w -]+>.*|\.\.\..*"""
    r"""|.*\.\.\.|…+|.*\[[^\]]*[a-zA-Z0-9]-[a-zA-Z0-9][^\]]*\].*|!vault|!ref.*|!sub.*|ref\+.*|op://.*|&(?:#\w+|lt|gt|amp|quot|nbsp);?.*|vault:.*|@microsoft\.keyvault.*|ssm:.*|secret:.*|arn:.*|env[:.].*|file:.*|enc\[.*)$"""
    r"""|example|placeholder|change[-_ ]?(?:me|it|this)(?!\d\d)|replace[-_ ]?(?:me|with|this)|redacted|(?<![a-z])your[-_ ]?|(?<![a-z])my[-_](?:secret|pass|api|token|key)|(?-i:xxxx|XXXX)|\*\*\*|•••|dummy|(?<![a-z])insert[-_ ]|goes[-_ ]here|_here$|-here$|(?<![a-z])(?:todo|fixme)(?![a-z-])|(?<![a-z])some[-_](?:secret|pass|key|token|value)""",
    re.IGNORECASE | re.DOTALL,
)


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder such as `<password>`, `${DB_PASSWORD}`, `xxxx`, `changeme`, `secret`."""
    plain = value.strip().strip("\"'`").lower()
    return not plain or plain in NOT_VALUES or len(set(plain)) == 1 or _STANDS_FOR.search(value) is not None


def base62_crc32(text: str) -> str:
    """Return the CRC-32 of a text as six characters in base 62. GitHub and npm tokens end with such a checksum."""
    number, checksum = zlib.crc32(text.encode()), ""
    while number:
        number, rest = divmod(number, 62)
        checksum = _BASE62[rest] + checksum
    return checksum.rjust(6, "0")


def is_checked_token(value: str) -> bool:
    """Return whether a GitHub or npm token has a valid checksum or looks random.

    A random token with a wrong checksum counts too: it may be mistyped, truncated or in a newer format, and storing a
    real token is the greater risk.
    """
    body = value.rpartition("_")[2]
    return base62_crc32(body[:-6]) == body[-6:] or is_random(value)


def is_jwt(value: str) -> bool:
    """Return whether the first part of a JSON Web Token is a JSON header that names an algorithm."""
    try:
        header = json.loads(decode_base64(value.partition(".")[0]))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and isinstance(header.get("alg"), str)


def is_snowflake_token(value: str) -> bool:
    """Return whether the first part of a Discord token is an account number (a snowflake id)."""
    try:
        number = decode_base64(value.partition(".")[0])
    except ValueError:
        return False
    return number.isdigit() and 15 <= len(number) <= 20 and is_random(value)


def decode_base64(text: str) -> bytes:
    """Decode base64 with or without padding, in the standard or the URL-safe alphabet.

    Raises `ValueError` if the text is not base64.
    """
    try:
        plain = text.rstrip("=").replace("-", "+").replace("_", "/").encode("ascii")
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError("not base64") from error


def entropy(text: str) -> float:
    """Return the Shannon entropy of a text in bits per character."""
    shares = [text.count(char) / len(text) for char in set(text)]  # a `Counter` takes three times as long
    return -sum([share * math.log2(share) for share in shares])


def is_random(value: str) -> bool:
    """Return whether a token looks real.

    Returns False for a placeholder, for a token with few different characters, for a run such as `12345678`, and for a
    repeated text.
    """
    value = value[:_SAMPLE_CHARS]
    lower = value.lower()
    if _MARKS.search(lower) or "xxxx" in value or "XXXX" in value or "..." in value or "***" in value:
        return False
    body = _PREFIX.sub("", value)
    few = 5 if len(body) <= 12 else 8 if _HEX.fullmatch(body) is None else 6
    return len(set(body)) >= min(few, len(body)) and not has_row(lower, _MAX_RUN + 1) and not _repeats(body)


def wordy_share(text: str) -> float:
    """Return the share of a text that consists of pronounceable words.

    A word has at least four letters, or five if all are upper case.
    """
    words = [word for word in _WORD.findall(text) if not _UNSPEAKABLE.search(word)]
    return sum(len(word) for word in words if len(_VOWEL.findall(word)) * 4 >= len(word)) / len(text)


def is_scrambled(text: str) -> bool:
    """Return whether letters and digits are mixed at random, unlike in a name made of words."""
    sorts = ["a" if char.islower() else "A" if char.isupper() else "0" if char.isdigit() else "-" for char in text]
    turns = sum(one != two for one, two in pairwise(sorts))
    apart = len(text) >= 24 and len(re.findall(r"\d+", text)) >= 4  # many separate groups of digits, unlike a name
    return apart or wordy_share(text) < 0.45 or turns >= len(text) * 0.55


def has_row(text: str, size: int) -> bool:
    """Return whether a text in lower case contains an ascending row of `size` characters, such as `3456` or `abcd`."""
    return any(text[at : at + size] in _ROWS for at in range(len(text) - size + 1))


def _repeats(text: str) -> bool:
    half = len(text) // 2
    size = text.find(text[:half], 1) if len(text) >= 16 else -1
    while 0 < size <= half:
        if text[size:] == text[:-size]:
            return True
        size = text.find(text[:half], size + 1)
    return False


def is_mixed(value: str) -> bool:
    """Return whether letters and digits are mixed at random, unlike in a path or a name."""
    return is_random(value) and re.search(r"\d", value) is not None and is_scrambled(value)


def _is_basic(value: str) -> bool:
    try:
        user, colon, password = decode_base64(value).decode().partition(":")
    except ValueError:
        return False
    return bool(colon) and bool(user + password) and (user + password).isprintable() and not is_placeholder(password)


def _is_real(value: str) -> bool:
    return len(value) >= 3 and not is_placeholder(value) and re.fullmatch(r"[\d:.,/]+|\.{0,2}/.*", value) is None


def _is_pem(value: str) -> bool:
    body = re.sub(r"-----[^-\n]*-----", "", value)
    return sum(map(len, re.findall(r"[A-Za-z0-9+/]{16,}", body))) >= 40 and "..." not in body and is_random(body[-60:])


def _is_bearer(value: str) -> bool:
    if is_placeholder(value) or not is_random(value) or not re.search(r"\d", value):
        return False
    return re.search(r"[A-Za-z]", value) is not None and max(map(len, re.split(r"[-_./]", value))) >= 8


CHECKS: dict[str, Callable[[str], bool]] = {
    "": is_random,
    "crc": is_checked_token,
    "jwt": is_jwt,
    "snowflake": is_snowflake_token,
    "mixed": is_mixed,
    "pem": _is_pem,
    "real": _is_real,
    "no placeholder": lambda value: len(value) >= 3 and not is_placeholder(value),
    "basic": _is_basic,
    "bearer": _is_bearer,
    "token": lambda value: is_mixed(value) and not is_placeholder(value) and UUID.fullmatch(value) is None,
    "strong": lambda value: _is_real(value) and is_strong(value),
}
"""Checks by name. The tables of vendors and forms refer to checks by these names."""


def is_strong(value: str) -> bool:
    """Return whether the password in a URL or command looks real, unlike the one in `scott:tiger`.

    A real password has letters, a digit and at least six different characters.
    """
    return re.search(r"\d", value) is not None and len(set(value)) >= 6 and re.search("[A-Za-z]", value) is not None


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
    if (
        _NUMBERED.fullmatch(text)
        or _NAME.fullmatch(text)
        or _HEX_NUMBER.fullmatch(text)
        or _PROGRAM_TEXT.search(text)
        or is_stand_in(text)
    ):
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
    if _PATH.match(text) or _RULES.fullmatch(text) or _NAME.fullmatch(text) or UUID.fullmatch(text):
        return LIKELY if UUID.fullmatch(text) and not in_code else NO
    if not quoted and _BRACKETS.search(text):
        return NO
    if not quoted and _CODE.fullmatch(text) and not _SENTENCE_LIKE.fullmatch(text):
        return NO
    if _MEASURE.fullmatch(text) or _HEX_NUMBER.fullmatch(text):
        return LIKELY if re.fullmatch(r"\d{6,24}|0x\w{8,40}", text) else NO
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
