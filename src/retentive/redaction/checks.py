"""Validity checks of matched values: checksums, headers, randomness."""

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
