"""E-mail addresses, phone numbers, and the recovery phrases of wallets."""

# ruff: noqa: E501 - a pattern is a line

from __future__ import annotations

import re
from collections.abc import Iterator

from retentive.redaction.rules import Find

SEEDS_HINT = (
    "(?:seed|mnemonic|recovery|wallet|wiederherstellungs|récupération|助记词|助記詞|シードフレーズ|リカバリーフレーズ)"
)
SEEK_SEEDS = (
    f"{SEEDS_HINT}[^\\n]*?"
    "[:=：は是为為「\\n\"'` ][ \\t\\r\\n]{0,4}(?:<?[a-z0-9_.-]{1,20}[>:][ ])?[\"'`]?(?:[a-z]{3,8}[ ,]{1,2}){11}[a-z]{3}"
)
_SEEDS = re.compile(r"(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8}(?![A-Za-z])")
# These words are not in the word list of BIP-39.
_COMMON_TEXT = """
the and for are was with your from has not but its our their which were been should each per via see
than them these those does
"""
_NO_SEEDS = frozenset(_COMMON_TEXT.split())


def find_seeds(text: str, start: int, end: int) -> Iterator[Find]:
    """Yield the recovery phrase of a wallet: 12, 15, 18, 21 or 24 uncommon words (BIP-39)."""
    for match in _SEEDS.finditer(text, start, end + 220):
        words = re.findall(r"[a-z]+", match[0])
        while len(words) > 12 and words[0] in {"phrase", "words", "word", "is", "seed", "mnemonic"}:
            words = words[1:]
        if len(words) in {12, 15, 18, 21, 24} and not _NO_SEEDS & set(words):
            yield Find("seed_phrase", text.index(words[0], match.start()), match.end(), likely=True)
            return


SEEK_CONTACTS = (
    "[A-Za-z0-9._%+-]@(?:[A-Za-z0-9-]+\\.)+[A-Za-z]{2}"
    "|(?:\\A|[^0-9A-Za-z_.+/=-])(?:\\+[0-9]{1,3}[ .(-]|\\([0-9]{3}\\) ?|[0-9]{3}[-.][0-9]{3}[-.]|0[0-9]{1,4}[ ./-])[0-9]"
)
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.){1,6}[A-Za-z]{2,24}(?![A-Za-z0-9])"
)
_PHONE = re.compile(
    r"(?<![0-9A-Za-z_.+/=-])(?:\+\d{1,3}[ .-]?(?:\(0?\d{1,4}\)[ .-]?)?\d{1,4}(?:[ ./-]?\d{2,4}){2,4}|\(\d{3}\) ?\d{3}[-. ]\d{4}|\d{3}[-.]\d{3}[-.]\d{4}|0\d{1,4}[ /-]\d{3,8}(?:[ -]\d{2,4}){0,3}|0\d(?:[ .]\d\d){4})(?![0-9A-Za-z_]|[.-]\d)"
)


def find_contacts(text: str, start: int, end: int) -> Iterator[Find]:
    """Yield e-mail addresses and phone numbers. Both kinds of sensitive values are off by default."""
    if text[start + 1] == "@":
        match = next(_EMAIL.finditer(text, max(0, start - 63), end + 24), None)
        if match is not None:
            yield Find("email", *match.span())
        return
    match = _PHONE.search(text, start, end + 40)
    if match is not None and match.start() <= start + 1:
        yield Find("phone", *match.span())
