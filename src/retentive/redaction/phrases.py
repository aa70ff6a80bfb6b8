"""Values in a row of words or pairs: recovery phrases of wallets, and the cookies of a session."""

from __future__ import annotations

import re

from retentive.redaction.checks import is_mixed
from retentive.redaction.rules import Find

SEED_WORDS = (
    "seed", "mnemonic", "recovery", "wallet", "wiederherstellungs", "récupération", "助记词", "助記詞",
    "シードフレーズ", "リカバリーフレーズ",
)  # fmt: skip
COOKIE_WORDS = ("cookie", "curl ")
_SEED = re.compile(r"(?<![a-z])(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8}(?![A-Za-z])")
_SEED_CHARS = 500  # characters after the word in which a recovery phrase is searched
# Ordinary words that are not in the word list of BIP-39.
_NO_SEED = {
    "the", "and", "for", "are", "was", "with", "your", "from", "has", "not", "but", "its", "our", "their", "which",
    "were", "been", "should", "each", "per", "via", "see", "than", "them", "these", "those", "does",
}  # fmt: skip
_COOKIES = re.compile(r"cookies?[\"'\]]*[ ]?[:=,(]|curl[ ][^\n]{0,200}?(?:-b|--cookie)[ =]", re.IGNORECASE)
_PAIR = re.compile(
    r"(?<![\w.-])[\w.-]{0,40}?(?:sess|sid|auth|token|remember|login|jwt)[\w.-]{0,40}[\"']?[ ]?[=:][ ]?[\"']?"
    r"(?P<value>[\w%.~+/|-]{16,4000}={0,2})",
    re.IGNORECASE,
)
_PUBLIC = re.compile("csrf|xsrf", re.IGNORECASE)
_LINE_CHARS = 4_000


def find_seed(text: str, start: int, end: int) -> tuple[list[Find], int]:
    """Return the recovery phrase after a word for it: 12, 15, 18, 21 or 24 uncommon words (BIP-39)."""
    stop = end + _SEED_CHARS
    match = _SEED.search(text, end, stop)
    if match is None:
        return [], stop
    words = re.findall(r"[a-z]+", match[0])
    while len(words) > 12 and words[0] in {"phrase", "words", "word", "is", "seed", "mnemonic"}:
        words = words[1:]
    if len(words) not in {12, 15, 18, 21, 24} or not _NO_SEED.isdisjoint(words):
        return [], match.end()
    return [Find("seed_phrase", text.index(words[0], match.start()), match.end(), likely=True)], match.end()


def find_cookies(text: str, start: int, end: int) -> tuple[list[Find], int]:
    """Return the values of session cookies in a header or after an option of curl."""
    lead = _COOKIES.match(text, start)
    if lead is None:
        return [], start
    stop = text.find("\n", lead.end(), lead.end() + _LINE_CHARS)
    stop = stop if stop >= 0 else min(len(text), lead.end() + _LINE_CHARS)
    finds: list[Find] = []
    for match in _PAIR.finditer(text, lead.end(), stop):
        value, at = match["value"].rstrip(".:|"), match.start("value")
        if is_mixed(value) and not _PUBLIC.search(text, match.start(), at):
            finds.append(Find("session_cookie", at, at + len(value)))
    return finds, stop
