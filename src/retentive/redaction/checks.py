"""Validity checks of matched values: checksums, ranges, headers, randomness."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import zlib
from collections import Counter
from itertools import pairwise

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MARKS = ("example", "your_", "your-", "yourapi", "yourtoken", "yourkey", "placeholder", "redacted", "dummy")
_WORD = re.compile(r"[A-Z]?[a-z]{4,}|[A-Z]{5,}")
_UNSPEAKABLE = re.compile(r"[^aeiouyAEIOUY]{4}(?<!ngth)(?<!ghts)(?<!nstr)|^(.)\1|[jqxzJQXZ].?[jqxzkwJQXZKW]")
_VOWEL = re.compile(r"[aeiouyAEIOUY]")
_SAMPLE_CHARS = 400  # enough to judge whether a text is random
_MAX_RUN = 7  # a longer run, such as 12345678, is typed and not random

# Length of an IBAN by country. Source: SWIFT, IBAN registry, release 99.
IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29,
    "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29,
    "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28,
    "HN": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20,
    "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19,
    "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29,
    "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24,
    "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
    "YE": 30,
}  # fmt: skip

# First digits and lengths of payment cards. Source: ISO/IEC 7812 ranges as the networks publish them.
_CARDS = re.compile(
    r"4\d{15}(?:\d{3})?"  # Visa
    r"|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-5]|[689]\d)\d{11}"  # Diners Club
    r"|6(?:011|22[1-9]|4[4-9]\d|5\d\d)\d{12}"  # Discover
    r"|35(?:2[89]|[3-8]\d)\d{12}"  # JCB
    r"|62\d{14,17}"  # UnionPay
    r"|(?:5018|5020|5038|5893|6304|6759|676[1-3])\d{8,15}"  # Maestro
)


def is_card(value: str) -> bool:
    """Return whether the digits are a payment card number: a known range and a valid Luhn check digit."""
    digits = re.sub(r"\D", "", value)
    if not _CARDS.fullmatch(digits) or (len(set(digits)) < 3 and not digits.startswith("4")):
        return False
    odd = sum(int(digit) for digit in digits[-1::-2])
    even = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (odd + even) % 10 == 0 and len(set(digits)) > 1


def is_iban(value: str) -> bool:
    """Return whether the length fits the country and the checksum is 1 modulo 97 (ISO 13616)."""
    plain = re.sub(r"[ \u00a0-]", "", value).upper()
    if IBAN_LENGTHS.get(plain[:2]) != len(plain):
        return False
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


def is_ssn(value: str) -> bool:
    """Return whether a US social security number can be assigned: not in a reserved range, not one used in adverts."""
    digits = re.sub(r"\D", "", value)
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    never = area in {"000", "666"} or area >= "900" or group == "00" or serial == "0000"
    return not never and digits not in {"078051120", "219099999"} and len(set(digits)) > 1


def base62_crc32(text: str, *, digits: str = _BASE62) -> str:
    """CRC-32 of a text in base 62: the six characters that end a GitHub or npm token."""
    number, checksum = zlib.crc32(text.encode()), ""
    while number:
        number, rest = divmod(number, 62)
        checksum = digits[rest] + checksum
    return checksum.rjust(6, "0")


def is_checked_token(value: str) -> bool:
    """Return whether a GitHub or npm token has a valid checksum, or is at least random.

    A token with a wrong checksum may be mistyped, truncated or of a newer format. Keeping it is the greater risk.
    """
    body = value.rpartition("_")[2]
    return base62_crc32(body[:-6]) == body[-6:] or is_random(value)


def is_jwt(value: str) -> bool:
    """Return whether the first part is a JSON header that names an algorithm."""
    try:
        header = json.loads(decode_base64(value.partition(".")[0]))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and isinstance(header.get("alg"), str)


def is_snowflake_token(value: str) -> bool:
    """Return whether the first part of a Discord token is an account number."""
    try:
        number = decode_base64(value.partition(".")[0])
    except ValueError:
        return False
    return number.isdigit() and 15 <= len(number) <= 20 and is_random(value)


def decode_base64(text: str) -> bytes:
    """Decode base64 of either alphabet, padded or not. Raises `ValueError` if the text is not base64."""
    try:
        plain = text.rstrip("=").replace("-", "+").replace("_", "/").encode("ascii")
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError("not base64") from error


def entropy(text: str) -> float:
    """Shannon entropy in bits per character."""
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)


def is_random(value: str) -> bool:
    """Return whether a token can be real: not a placeholder, not a run like `1234567`, not a repeated text."""
    value = value[:_SAMPLE_CHARS]
    lower = value.lower()
    if any(mark in lower for mark in _MARKS) or "xxxx" in value or "XXXX" in value or "..." in value or "***" in value:
        return False
    body = re.sub(r"^[A-Za-z]{2,12}[-_.]", "", value)
    few = 5 if len(body) <= 12 else 8 if re.fullmatch(r"[0-9a-fA-F.:_-]+", body) is None else 6
    return len(set(body)) >= min(few, len(body)) and longest_row(lower) <= _MAX_RUN and not _repeats(body)


def wordy_share(text: str) -> float:
    """Share of a text made up of pronounceable words of five or more letters; `camelCase` is split."""
    words = [word for word in _WORD.findall(text) if not _UNSPEAKABLE.search(word)]
    return sum(len(word) for word in words if len(_VOWEL.findall(word)) * 4 >= len(word)) / len(text)


def is_scrambled(text: str) -> bool:
    """Return whether letters and digits are mixed at random, unlike in a name made of words."""
    sorts = ["a" if char.islower() else "A" if char.isupper() else "0" if char.isdigit() else "-" for char in text]
    turns = sum(one != two for one, two in pairwise(sorts))
    return wordy_share(text) < 0.45 or turns >= len(text) * 0.55


def longest_row(text: str) -> int:
    """Length of the longest run of consecutive characters, as in `3456` or `abc`."""
    best = run = 1
    for one, two in pairwise(text):
        run = run + 1 if ord(two) - ord(one) == 1 or (one, two) == ("9", "0") else 1
        best = max(best, run)
    return best


def _repeats(text: str) -> bool:
    """Return whether the text is a short text repeated."""
    if len(text) < 16:
        return False
    return any(text[size:] == text[:-size] for size in range(1, len(text) // 2 + 1))
