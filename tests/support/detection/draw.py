"""Random values from templates, with the checksums of real values."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import string
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from urllib.parse import quote
from uuid import UUID

BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
ALPHABETS = {
    "a": BASE62,
    "l": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "L": string.ascii_letters,
    "A": string.ascii_uppercase,
    "d": string.digits,
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "w": BASE62 + "-_",
    "b64": BASE62 + "+/",
    "b32": string.ascii_uppercase + "234567",
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}
_SLOT = re.compile(r"<(\w+)(?::(\d+))?>")
_WORDS = (Path(__file__).parent / "bip39.txt").read_text("utf-8").split()


def of(rng: Random, alphabet: str, length: int) -> str:
    """Return `length` random characters of the alphabet with this name."""
    return "".join(rng.choices(ALPHABETS[alphabet], k=length))


def fill(rng: Random, template: str) -> str:
    """Fill each `<alphabet:length>` of the template, and each slot in `SLOTS`, such as `<uuid>`, and each `<crc>`.

    `<crc>` is the CRC-32 in base 62 of the text after the last underscore, as GitHub and npm append it. Source: GitHub
    blog, "Behind GitHub's new authentication token formats".
    """
    text, at = "", 0
    for slot in _SLOT.finditer(template):
        text += template[at : slot.start()]
        name, size = slot.group(1), int(slot.group(2) or 0)
        if name == "crc":
            text += crc62(text.rpartition("_")[2])
        else:
            text += SLOTS[name](rng, size) if name in SLOTS else of(rng, name, size)
        at = slot.end()
    return text + template[at:]


def crc62(text: str) -> str:
    """Return the CRC-32 in base 62, with six characters."""
    number, found = zlib.crc32(text.encode()), ""
    while number:
        number, rest = divmod(number, 62)
        found = BASE62[rest] + found
    return found.rjust(6, "0")


def uuid(rng: Random) -> str:
    """Return a random UUID of version 4."""
    return str(UUID(int=rng.getrandbits(128), version=4))


def json64(rng: Random, length: int) -> str:
    """Return the unpadded base64 of a JSON object of about this many characters."""
    known = {"iat": rng.randrange(1_600_000_000, 1_900_000_000), "region_url": "https://eu.example.io", "org": "acme"}
    whole = json.dumps(known | {"salt": of(rng, "a", length)}, separators=(",", ":"))
    return base64.b64encode(whole.encode()).decode().rstrip("=")


def bytes64(rng: Random, length: int) -> str:
    """Return the base64 of random bytes."""
    return base64.b64encode(rng.randbytes(length)).decode()


def lines64(rng: Random, length: int, *, width: int = 64, start: bytes = b"") -> str:
    """Return the base64 of `start` and random bytes, in several lines."""
    whole = base64.b64encode(start + rng.randbytes(length)).decode()
    return "\n".join(whole[at : at + width] for at in range(0, len(whole), width))


def luhn(digits: str) -> str:
    """Return the check digit that makes `digits` valid. Source: ISO/IEC 7812-1."""
    doubled = [int(digit) * (2 if at % 2 == 0 else 1) for at, digit in enumerate(reversed(digits))]
    return str(-sum(value - 9 if value > 9 else value for value in doubled) % 10)


def card(rng: Random, prefix: str, length: int) -> str:
    """Return a card number in the range of an issuer, with a valid check digit."""
    body = prefix + of(rng, "d", length - len(prefix) - 1)
    return body + luhn(body)


def iban(country: str, account: str) -> str:
    """Return an IBAN with valid check digits. Source: ISO 13616, mod 97-10."""
    moved = "".join(str(int(char, 36)) for char in account + country + "00")
    return f"{country}{98 - int(moved) % 97:02}{account}"


def grouped(value: str, sizes: tuple[int, ...], separator: str) -> str:
    """Cut the value into groups of these sizes. The last size is used for all remaining groups."""
    parts, at, turn = [], 0, 0
    while at < len(value):
        size = sizes[min(turn, len(sizes) - 1)]
        parts.append(value[at : at + size])
        at, turn = at + size, turn + 1
    return separator.join(parts)


def mnemonic(rng: Random, words: int) -> str:
    """Return a seed phrase with a valid checksum. Source: BIP-0039."""
    size = words * 32 // 3
    entropy = rng.randbytes(size // 8)
    check = size // 32
    number = int.from_bytes(entropy) << check | hashlib.sha256(entropy).digest()[0] >> (8 - check)
    places = [(number >> 11 * at) & 2047 for at in reversed(range(words))]
    return " ".join(_WORDS[place] for place in places)


def word(rng: Random) -> str:
    """Return a common English word of three to eight letters."""
    return rng.choice(_WORDS)


def password(rng: Random) -> str:
    """Return a password as people or generators create it. It contains at least one digit or symbol."""
    style = rng.randrange(6)
    if style == 0:
        return word(rng).capitalize() + str(rng.randrange(1960, 2027)) + rng.choice("!?#$")
    if style == 1:
        return "-".join(word(rng) for _ in range(3)) + f"-{rng.randrange(10, 99)}"
    if style == 2:
        return (word(rng) + word(rng)).replace("o", "0").replace("e", "3") + rng.choice("&!#") + of(rng, "d", 2)
    if style == 3:
        return generated(rng, rng.randrange(12, 20), "!#%*+-=?@^_~")
    if style == 4:
        return generated(rng, rng.randrange(16, 28), "")
    return "-".join(of(rng, "a", 4) for _ in range(4)) + of(rng, "d", 1)


def generated(rng: Random, length: int, symbols: str) -> str:
    """Return random characters with a digit and letters of both cases. The first and the last one are letters."""
    inner = rng.choices(BASE62 + symbols * 2, k=length - 5)
    inner += [of(rng, "d", 1), of(rng, "A", 1), of(rng, "L", 1).lower()]
    rng.shuffle(inner)
    return of(rng, "L", 1) + "".join(inner) + of(rng, "L", 1)


_NAMES = ("minipass", "passport", "keyv", "tokenize", "secretlint", "pass-stream", "api-key-less", "passwd-user")
SLOTS: dict[str, Callable[[Random, int], str]] = {
    "uuid": lambda rng, _: uuid(rng),
    "json": json64,
    "word": lambda rng, _: word(rng),
    "name": lambda rng, _: rng.choice((*_NAMES, *[f"{word(rng)}-{word(rng)}"] * 24)),  # of a package
    "n": lambda rng, most: str(rng.randrange(most)),
    "bytes": bytes64,
    "lines": lines64,
    "luhn": lambda rng, length: card(rng, rng.choice("12789"), length),
    "basic": lambda rng, _: base64.b64encode(f"ci:{password(rng)}".encode()).decode(),
    "password64": lambda rng, _: base64.b64encode(password(rng).encode()).decode(),
    "signature": lambda rng, _: quote(fill(rng, "<b64:43>="), safe=""),
}
