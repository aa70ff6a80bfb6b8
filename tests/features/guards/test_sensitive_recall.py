"""Recall and precision: random values of every kind are found in many contexts, and benign texts are unchanged."""

from __future__ import annotations

import string
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from retentive.redaction.checks import base62_crc32
from retentive.redaction.detector import Detector
from support.profiles import sized

from . import sensitive_contexts as contexts
from .sensitive_values import ALNUM, BARE, BASE64, HEX, NAMED, Make, card, iban, of, password, uuid

TIMES = sized(quick=2, long=10, full=20)
DETECTOR = Detector()
AT_LEAST = 0.97
FINDABLE = (Path(__file__).parent / "findable.txt").read_text("utf-8").splitlines()
BENIGN = [
    line.replace("⏎", "\n")
    for line in (Path(__file__).parent / "benign.txt").read_text("utf-8").split("\n")
    if line.strip()
]
ONE_LINE = ("query", "escaped", "header")  # contexts that take no value of several lines


def bare_texts(make: Make, rng: Random) -> Iterator[tuple[str, str]]:
    for name, context in contexts.BARE.items():
        for _ in range(TIMES):
            value = make(rng)
            if "\n" not in value or name not in ONE_LINE:
                yield context.format(v=value), value


def named_texts(kind: str, rng: Random) -> Iterator[tuple[str, str]]:
    for name, key, make in NAMED.get(kind, ()):
        for context in contexts.NAMED.values():
            for _ in range(TIMES):
                value = make(rng)
                yield context.format(n=name, k=key, v=value), value


def missed(texts: Iterator[tuple[str, str]]) -> tuple[int, list[str]]:
    """The number of texts, and the texts whose value survives redaction."""
    count, left = 0, []
    for text, value in texts:
        count += 1
        redacted, kinds = DETECTOR.redact(text)
        if value in redacted or not kinds:
            left.append(text)
        assert DETECTOR.find(redacted) == []
    return count, left


@pytest.mark.parametrize("kind", sorted({*BARE, *NAMED}))
def test_values_of_a_kind_are_found(kind: str) -> None:
    """In any context, and nearly always with the right kind."""
    rng = Random(zlib.crc32(kind.encode()))
    texts = [pair for make in BARE.get(kind, ()) for pair in bare_texts(make, rng)] + list(named_texts(kind, rng))
    count, left = missed(iter(texts))
    assert count - len(left) >= AT_LEAST * count, left[:5]
    right = sum(any(find.kind == kind for find in DETECTOR.find(text)) for text, _ in texts)
    assert right >= 0.9 * count


@pytest.mark.parametrize("context", sorted(contexts.PASSWORD))
def test_passwords_are_found_in_five_languages(context: str) -> None:
    rng = Random(zlib.crc32(context.encode()))
    values = [password(rng) for _ in range(10 * TIMES)]
    count, left = missed((contexts.PASSWORD[context].format(v=value), value) for value in values)
    assert count - len(left) >= 0.95 * count, left[:5]


def test_lines_as_people_write_them_are_found() -> None:
    """Short texts in five languages and a dozen notations, each with at least one value."""
    left = [line for line in FINDABLE if not DETECTOR.find(line)]
    assert len(FINDABLE) >= 150
    assert len(left) <= 0.05 * len(FINDABLE), left


def test_benign_texts_are_unchanged() -> None:
    changed = [text for text in BENIGN if DETECTOR.find(text)]
    assert len(BENIGN) >= 350
    assert len(changed) <= 0.005 * len(BENIGN), changed


def benign(rng: Random) -> Iterator[str]:
    """Texts of random-looking values that are not secret."""
    yield f"commit {of(rng, HEX, 40)}\nMerge: {of(rng, HEX, 7)} {of(rng, HEX, 7)}\n"
    yield f"{of(rng, HEX, rng.choice([8, 16, 24, 32, 40, 56, 64, 96, 128]))}  file-{rng.randrange(99)}.tar.gz"
    yield f"id: {uuid(rng)}\nrequest={uuid(rng)}"
    yield f'"integrity": "sha512-{of(rng, BASE64, 86)}==",'
    yield f'    {{file = "a-1.0.tar.gz", hash = "sha256:{of(rng, HEX, 64)}"}},'
    yield f"img {{ background: url(data:image/png;base64,iVBORw0KGgo{of(rng, BASE64, 400)}) }}"
    yield f"ssh-rsa AAAAB3NzaC1yc2E{of(rng, BASE64, 350)} anna@laptop"
    lines = "\n".join(of(rng, BASE64, 64) for _ in range(12))
    yield f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----"
    yield f"position {rng.uniform(-90, 90):.6f}, {rng.uniform(-180, 180):.6f}"
    yield f"v{rng.randrange(9)}.{rng.randrange(99)}.{rng.randrange(99)}, build {rng.randrange(10**6)}"
    yield f"2024-0{rng.randrange(1, 9)}-11T10:03:17.{rng.randrange(10**6):06}Z took {rng.randrange(10**4)} ms"
    yield f"password_hash = '$2b$12${of(rng, ALNUM, 53)}'"
    name = "_".join(rng.sample(["user", "admin", "reset", "next", "old", "form", "db"], 2))
    yield f"password = {name}\nself.password = {name}.password\npassword = get_{name}()"
    yield f"token = self.{name}_token\nsecret = load({name!r})\napi_key=settings.{name.upper()}_API_KEY"
    yield f"DB_PASSWORD=${{{name.upper()}}}\nAPI_KEY=<{name}>\nTOKEN={'x' * rng.randrange(4, 40)}"
    yield f"The password of {name} is {rng.choice(['wrong', 'expired', 'in the vault', 'too short'])}."
    wrong = card(rng)
    yield f"order {wrong[:-1]}{(int(wrong[-1]) + rng.randrange(1, 9)) % 10}"
    account = iban(rng)
    yield f"{account[:2]}{(int(account[2:4]) + 1) % 100:02}{account[4:]}"
    yield "".join(rng.choices(string.ascii_lowercase + "(){};=.,:!&|", k=500))


def test_generated_benign_texts_are_unchanged() -> None:
    rng = Random(5)
    texts = [text for _ in range(sized(quick=20, long=50, full=100)) for text in benign(rng)]
    changed = [text for text in texts if DETECTOR.find(text)]
    assert len(changed) <= 0.01 * len(texts), changed[:10]


def test_checksums_match_those_of_the_vendors() -> None:
    """The CRC-32 of `123456789` is 0xCBF43926 = 3421780262."""
    digits = string.digits + string.ascii_uppercase + string.ascii_lowercase
    number = 0
    for char in base62_crc32("123456789"):
        number = number * 62 + digits.index(char)
    assert number == 0xCBF43926
    assert base62_crc32("") == "000000"
