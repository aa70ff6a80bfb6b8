"""Checks that a pattern cannot express, applied to matched values: checksums, headers, randomness."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import zlib
from collections.abc import Callable
from itertools import pairwise

from retentive.redaction.words import is_placeholder

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MARKS = re.compile("example|your[_-]|yourapi|yourtoken|yourkey|placeholder|redacted|dummy")
_PREFIX = re.compile(r"^[A-Za-z]{2,12}[-_.]")
_HEX = re.compile(r"[0-9a-fA-F.:_-]+")
_NEXT = bytes([*range(1, 256), 0]).replace(b":", b"0", 1)  # maps each byte to the next one, and `9` to `0`
_WORD = re.compile(r"[A-Z]?[a-z]{4,}|[A-Z]{5,}")
_UNSPEAKABLE = re.compile(r"[^aeiouyAEIOUY]{4}(?<!ngth)(?<!ghts)(?<!nstr)|^(.)\1|[jqxzJQXZ].?[jqxzkwJQXZKW]")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_VOWEL = re.compile(r"[aeiouyAEIOUY]")
_SAMPLE_CHARS = 400  # characters from the start of a value that are checked for randomness
_MAX_RUN = 7  # characters; a longer run, such as 12345678, was typed and is not random


def base62_crc32(text: str, *, digits: str = _BASE62) -> str:
    """Return the CRC-32 of a text as six characters in base 62. GitHub and npm tokens end with such a checksum."""
    number, checksum = zlib.crc32(text.encode()), ""
    while number:
        number, rest = divmod(number, 62)
        checksum = digits[rest] + checksum
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
    """Return whether a text contains an ascending sequence of `size` characters, such as `3456` or `abcd`."""
    data = text.encode("utf-8", "replace")
    steps = int.from_bytes(data[:-1].translate(_NEXT), "big") ^ int.from_bytes(data[1:], "big")
    return bytes(size - 1) in steps.to_bytes(len(data), "big")[1:]


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


def _is_no_placeholder(value: str) -> bool:
    return len(value) >= 3 and not is_placeholder(value)


def _is_pem(value: str) -> bool:
    body = re.sub(r"-----[^-\n]*-----", "", value)
    return sum(map(len, re.findall(r"[A-Za-z0-9+/]{16,}", body))) >= 40 and "..." not in body and is_random(body[-60:])


def _is_bearer(value: str) -> bool:
    if is_placeholder(value) or not is_random(value) or not re.search(r"\d", value):
        return False
    return re.search(r"[A-Za-z]", value) is not None and max(map(len, re.split(r"[-_./]", value))) >= 8


def _is_token(value: str) -> bool:
    return is_mixed(value) and not is_placeholder(value) and _UUID.fullmatch(value) is None


CHECKS: dict[str, Callable[[str], bool]] = {
    "": is_random,
    "crc": is_checked_token,
    "jwt": is_jwt,
    "snowflake": is_snowflake_token,
    "mixed": is_mixed,
    "pem": _is_pem,
    "real": _is_real,
    "no placeholder": _is_no_placeholder,
    "basic": _is_basic,
    "bearer": _is_bearer,
    "token": _is_token,
    "strong": lambda value: _is_real(value) and is_strong(value),
}
"""Checks by name. The tables of vendors and forms refer to checks by these names."""


def is_strong(value: str) -> bool:
    """Return whether the password in a URL or command looks real, unlike the one in `scott:tiger`.

    A real password has letters, a digit and at least six different characters.
    """
    return re.search(r"\d", value) is not None and len(set(value)) >= 6 and re.search("[A-Za-z]", value) is not None
