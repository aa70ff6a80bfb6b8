"""Plausibility of values after words such as `password` or `token`: real value, or prose, code, placeholder, hash."""

# ruff: noqa: E501 - a pattern or a list is a line

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from retentive.redaction.checks import entropy, is_random, is_scrambled, longest_row
from retentive.redaction.words import NOT_VALUES, PASSWORD_WORDS, is_placeholder, is_state

MIN_SECRET = 12  # characters: a shorter text may be an ordinary name


@dataclass(frozen=True, slots=True)
class Value:
    """Candidate value after a name: its text, the sign between them (`link`), and whether it is quoted.

    `alone`: nothing follows on the line that would make it part of a sentence. `tight`: no space around the sign, as
    in `KEY=value`. `config`: the line starts with the name, as in .env, ini and YAML files.
    """

    text: str
    link: str
    quoted: bool
    alone: bool
    tight: bool
    config: bool


_CODE = re.compile(
    r"^(?:[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)+[\]),;(!]*"  # config.password
    r"|!?&?\*?[A-Za-z_$][\w$.:]{0,60}[(\[{].*"  # get_password()
    r"|[({\[].*|&?'?\w+ str|\.\.\.|=.*|->.*|\\.*|!(?:vault|ref|sub|secret|env|getatt|include)\w*|\|-?|>-?)$",
    re.DOTALL,
)
_SENTENCE_LIKE = re.compile(r"(?=.*\d)[A-Z][A-Za-z0-9]*\.[A-Z0-9][A-Za-z0-9]*")  # Apple.Pie4, not a member of an object
_CALL = re.compile(
    r"^(?:await |new )?[A-Za-z_$][A-Za-z_$.:]{2,60}[(\[].*[)\]]?|^[A-Za-z_$][\w$.:]{2,60}\([^()]{0,80}(?:\([^()]{0,80}\)[^()]{0,80})?\)[;,]?$"
)
_PATH = re.compile(r"^(?:[a-z][a-z0-9+.-]*://|\.{0,2}/[\w.-]|//|~/|[A-Za-z]:\\|[\w-]+(?:/[\w.-]+)*\.(?:txt|ya?ml|json|env|md|py|js|ts|html?|php|ini|cfg|toml|pem|key|gpg|kdbx?|asc|log|sh|com|org|net|io|dev)$)")  # fmt: skip
_HASH = re.compile(r"^(?:\$(?:2[abxy]?|1|5|6|7|y|argon2\w*|pbkdf2[\w-]*|scrypt)\$|\{(?:SSHA|SHA|CRYPT|PBKDF2)|(?:pbkdf2|scrypt|argon2|bcrypt|sha(?:1|256|512)|md5)[\w$]*[$:-]|SCRAM-SHA|Ag[A-D][A-Za-z0-9+/]{200})", re.IGNORECASE)  # fmt: skip
_UUID = re.compile(r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
_EMAIL = re.compile(r"^[\w.+-]+@[\w-]+(?:\.[\w-]+)+$")
_ALGORITHM = re.compile(
    r"^(?:(?:sha|aes|md|rsa|base|pbkdf|argon|bcrypt|utf|ascii|oauth|http|ipv|rfc|ed|tls|ssl|hs|rs|es|hmac|iso|cp|latin|x)"
    r"[-_ ]?\d{1,5}(?:[-_.][a-z0-9]{1,12}){0,3}|(?:strg|ctrl|cmd|alt|shift|umschalt)\+.*|2fa|mfa|totp|1password\w*|\d+(?:st|nd|rd|th)"
    r"|\d+(?:[.,]\d+)*[%€$]?|\d{1,6}(?:[-.,/:x]\d{1,12}){0,8}(?:[a-z]{1,3}|-?(?:bits?|bytes?|chars?|characters?|days?|hours?|minutes?|digits?|months?|times?|stellige?\w?|zeichen|tage))?)$",
    re.IGNORECASE,
)
_NAMED = re.compile(r"^(?:[a-z]{1,2}|win|mysql|postgres|postgresql|python|php|java|log4j|neo4j|k8s|i18n|l10n|auth|web|step|section|part|page|chapter|line|version|type|level|option|note|issue|figure|table|arg|str|param|var|val|tmp|test|field|user|item|node|host|server|day|week|col)[-_ ]?v?\d{1,3}(?:\.\d+)*[a-z]?$", re.IGNORECASE)  # fmt: skip
_THING = re.compile(
    r"(?:Key|Token|Secret|Types?|Client|Name|Path|File|Class|Error|Config|Provider|Manager|Service|Handler|Request|Response)s?$"
)
_OPTION = re.compile(
    r"^(?:--?)?[A-Za-z][\w-]*=[\w.-]*$|^[\w.-]+(?:/[\w.-]+)+$|^[A-Za-z]+@[A-Za-z]+$|^\d{4}-\d\d-\d\d(?:T[\d:.Z+-]+)?$"
)
_RULES = re.compile(r"^[\w:,]+(?:\|[\w:,.]+)+$")
_WORDY = re.compile(r"^[^\W\d_]+(?:[-_'’./| ,]+[^\W\d_]+)*$")
_SPECIAL = re.compile(r"[@#$%^&*!+=~?]")
_DATED = re.compile(r"^[A-Za-z]+(?:[-_/]\d{1,4}){1,3}$")  # order-2026-03
_LITTLE_TEXT = """
the a an is are of to in on for and or not you your with by as at be it this that enter please must can will
le la de du et ou der die das und ist ein von zu mit minimum maximum character characters digits letters
password passwords required optional end case token secret see ask stored saved kept same set change from via or
if but has have been was were per use used need needs needed when only all any at least but so we they he she
wird wurde werden liegt steht im am bei vom zum zur nur noch nicht bitte siehe wie bekannt kommt sind hat haben auf
dans est sera voir avec sur pas plus par les des une qui que chez pour être sont
"""
_LITTLE = frozenset(_LITTLE_TEXT.split())
_KEPT_IN = frozenset(
    {
        "vault",
        "safe",
        "tresor",
        "coffre",
        "keychain",
        "team",
        "stored",
        "required",
        "never",
        "not",
        "is",
        "are",
        "ist",
        "est",
    }
)
_OPENS = frozenset(
    {"ask", "see", "same", "do", "no", "not", "to", "set", "use", "per", "auto", "self", "case", "one", "read", "non"}
)
_EDGE = re.compile(r"^\W+|\W+$")


def is_password(value: Value) -> bool:
    """Return whether a value after a word for a password is a password."""
    text = value.text
    if not 4 <= len(text) <= 200 or _is_stand_in(text) or _HASH.match(text) or _EMAIL.match(text):
        return False
    if " " in text:
        words = text.lower().split()
        mixed = re.search(r"\d", text) is not None and len(words) <= 4 and not _LITTLE & set(words)
        return value.quoted and value.link != "comma" and (mixed or is_passphrase(text))
    if _PATH.match(text) or _RULES.match(text) or (not value.quoted and _is_code(value)) or _names_a_password(text):
        return False
    if _is_loose(value):
        return is_strong_look(text) or (value.link == "word" and value.alone and _is_a_lone_word(value))
    return _fair_look(value)


def is_secret(value: Value) -> bool:
    """Return whether a value after a word for a key, token or secret is long and random."""
    text = value.text
    if (
        not MIN_SECRET <= len(text) <= 2000
        or " " in text
        or text.count("=") > 4
        or _is_stand_in(text)
        or _HASH.match(text)
    ):
        return False
    if _PATH.match(text) or _EMAIL.match(text) or _ALGORITHM.match(text) or (_CODE.match(text) and not value.quoted):
        return False
    if text.isdigit() or _DATED.match(text) or not is_random(text) or _THING.search(text):
        return False
    if _UUID.match(text):
        return value.link in {"equal", "colon"}
    return _looks_random(text) and (value.link != "space" or _is_of_all_sorts(text))


def _is_stand_in(text: str) -> bool:
    plain = _EDGE.sub("", text).lower()
    return is_placeholder(text) or plain in NOT_VALUES or not plain or len(set(plain)) < 2


def _is_loose(value: Value) -> bool:
    """Return whether the sign also occurs in prose, so that the value itself must look like a password."""
    return (
        value.link in {"word", "space", "comma", "table", "column"} and not (value.quoted and value.link == "word")
    ) or (value.link == "colon" and not value.alone)


def _is_code(value: Value) -> bool:
    """Return whether an unquoted value is an expression: a call, a member or a variable."""
    text = value.text
    if _CALL.match(text):
        return True
    if _CODE.match(text) and len(re.findall(r"\d", text)) < 3:
        return _SENTENCE_LIKE.fullmatch(text) is None
    plain = text.rstrip(",;)")
    if re.fullmatch(r"[A-Za-z_]\w*", plain) is None or value.link not in {"equal", "colon"}:
        return False
    if plain != text and not re.search(r"\d", plain):
        return True
    in_code = value.link == "equal" and (not value.tight or not value.config)
    return in_code and (not re.search(r"\d", plain) or ("_" in plain and not is_scrambled(plain)))


def _names_a_password(text: str) -> bool:
    """Return whether the text is a name, not a value: `Passwort`, `db_password`, `passwords.reset`."""
    if re.search(r"\d{2}|[@#$%^&*!+~?]|[a-z]\d[a-z]", text):
        return False
    lower = text.lower()
    return any(word in lower for word in (*PASSWORD_WORDS[:8], "pwd", "secret", "token", "credential"))


def is_passphrase(text: str, *, announced: bool = False) -> bool:
    """Return whether the words are a passphrase and not a sentence; less strict if `announced` as a passphrase."""
    words = text.split()
    if announced:
        lower = text.lower().split()
        return len(words) >= 4 and lower[0] not in _LITTLE | _OPENS and not _KEPT_IN & set(lower)
    if re.search(r"\d", text) and len(words) <= 2 and len(text) <= 40:
        return all(_EDGE.sub("", word) and is_strong_look(word) for word in words)
    plain = all(re.fullmatch(r"[a-zà-ÿ]{2,10}", word) for word in words)
    return plain and 4 <= len(words) <= 10 and not _LITTLE & set(words)


def is_strong_look(text: str) -> bool:
    """Return whether the text, without any context, is not a word, number or name."""
    if re.fullmatch(r"\d{6,12}", text):
        return True
    if _OPTION.match(text):
        return False
    if (
        len(text) < 5
        or _ALGORITHM.match(text)
        or _NAMED.match(text)
        or _UUID.match(text)
        or longest_row(text.lower()) > 8
    ):
        return False
    if re.search(r"[A-Za-z]", text) is None:
        return len(_SPECIAL.findall(text)) >= 1 and len(set(text)) >= 5
    if re.search(r"\d", text) or _SPECIAL.search(text[1:-1]):
        return re.fullmatch(r"[A-Za-z]?\d+(?:[-.]\d+)*[A-Za-z]?", text) is None
    return _camels(text) >= 4 or _is_chain(text)


_NOT_OBVIOUS = re.compile(r"[()\[\]{}<>=/\\|,;:\"'`]|::|->|\?\.|^[\w.+-]+@[\w.-]+$|^[#@$%&*+~!?]|^[a-z]\w*\.\w+!?$")


def is_obvious(text: str) -> bool:
    """Return whether a text is almost certainly a password: letters, a digit, and a sign that names do not have."""
    if len(text) < 6 or _NOT_OBVIOUS.search(text) or _is_stand_in(text):
        return False
    signs = re.search(r"[a-zA-Z0-9][@#$%^&*!+~?](?:[a-zA-Z0-9]|$)", text)
    return signs is not None and re.search(r"\d", text) is not None and len(re.findall(r"[A-Za-z]", text)) >= 3


def _is_a_lone_word(value: Value) -> bool:
    """Return whether the last word of a sentence can be the password (`swordfish`) and not a state (`expired`)."""
    text = value.text
    if re.fullmatch(r"[A-Za-zÀ-ÿ]+(?:[-_.][A-Za-zÀ-ÿ]+)*", text) is None or (is_state(text) and "-" not in text):
        return False
    parts = re.split(r"[-_.]", text.lower())
    if len(parts) > 1 and (parts[0] in _OPENS or (text.islower() and is_state(parts[-1]))):
        return False
    return len(text) >= 6 and not _LITTLE & set(parts)


def _camels(text: str) -> int:
    """Number of changes between upper and lower case."""
    if not re.fullmatch(r"[A-Za-z]{8,}", text):
        return 0
    return sum(one.islower() != two.islower() for one, two in pairwise(text))


def _is_chain(text: str) -> bool:
    """Return whether the text is four or more content words, such as `correct-horse-battery-staple`."""
    words = re.split(r"[-_.]", text.lower())
    return len(words) >= 4 and all(re.fullmatch(r"[a-z]{3,10}", word) for word in words) and not _LITTLE & set(words)


def _is_joined_words(text: str, *, quoted: bool) -> bool:
    """Return whether the text is joined words that do not describe a password: `welcome-to-acme`."""
    parts = re.split(r"[-_.]", text.lower())
    least = 2 if quoted or not text.islower() else 3
    return len(parts) >= least and parts[0] not in _OPENS and not is_state(text) and (quoted or not is_state(parts[-1]))


def _fair_look(value: Value) -> bool:
    """Return whether the value can be a password, given a sign such as `=` before it."""
    text = value.text
    if _UUID.match(text):
        return value.link in {"equal", "colon"}
    if _ALGORITHM.match(text) or re.match(r"\d{4}-\d\d-\d\d(?:T|$)", text):
        return bool(
            re.fullmatch(r"\d{6,24}", text) or ((value.quoted or value.tight) and re.fullmatch(r"\d{4,5}", text))
        )
    if re.search(r"\d", text) or _SPECIAL.search(text):
        return re.search(r"[^\W_]", text) is not None or len(set(text)) >= 5
    if not _WORDY.match(text):
        return len(set(text)) >= 5
    if "|" in text or "/" in text or "'" in text or "," in text or len(text) < 5:
        return False
    if not text.isascii() and not re.fullmatch(r"[A-Za-zÀ-ÿ]+(?:[-_.][A-Za-zÀ-ÿ]+)*", text):
        return False
    if re.fullmatch(r"[A-Z]?[a-zß-ÿ]+", text) and value.link == "colon" and not value.quoted:
        return value.alone and not value.tight and not is_state(text)
    return (
        not re.search(r"[-_.]", text)
        or _is_chain(text)
        or _camels(text) >= 3
        or value.tight
        or _is_joined_words(text, quoted=value.quoted)
    )


def _is_of_all_sorts(text: str) -> bool:
    """Return whether a text of 16 or more characters mixes lower case, upper case and digits; no hash does."""
    return len(text) >= 16 and all(re.search(sort, text) for sort in (r"[a-z]", r"[A-Z]", r"\d"))


def _looks_random(text: str) -> bool:
    """Return whether the characters are distributed unlike those of words, names and numbers."""
    core = text.rstrip("=")
    if re.fullmatch(r"[0-9a-fA-F]+", core):
        return (
            len(core) >= 20
            and entropy(core.lower()) > 2.5
            and bool(re.search(r"\d", core))
            and bool(re.search(r"[a-fA-F]", core))
        )
    sorts = sum(bool(re.search(sort, core)) for sort in (r"[a-z]", r"[A-Z]", r"\d"))
    if sorts < 2 or entropy(core) < (2.9 if len(core) < 20 else 3.3):
        return False
    return (len(core) >= 20 or re.search(r"\d", core) is not None) and is_scrambled(core)
