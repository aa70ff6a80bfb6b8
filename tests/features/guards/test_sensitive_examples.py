"""Ordinary text that must stay, disguises that must not help, and the examples of the table of vendors."""

from __future__ import annotations

import base64
import re
import string
from random import Random
from urllib.parse import quote

import pytest

from retentive.redaction.detector import Detector
from retentive.redaction.numbers import is_iban
from retentive.redaction.rules import data
from support.detection.draw import ALPHABETS, crc62, uuid
from support.detection.redaction import redact
from support.detection.values import kinds

DETECTOR = Detector()
MAKE = {kind.name: kind.make for kind in kinds()}
card, iban = MAKE["card-visa"], MAKE["iban-DE"]
KEY = "AKIAQYLPMN5HXRZW2TVB"
ORDER = "4539148803436467"  # valid by Luhn, in a range of Visa
SORTS = {
    "d": string.digits,
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "w": string.ascii_letters + string.digits,
    "z": ALPHABETS["l"],
    "l": string.ascii_lowercase,
    "A": string.ascii_uppercase + string.digits,
    "q": string.ascii_lowercase + "234567",
    "2": string.ascii_uppercase + "234567",
    "Q": ALPHABETS["bech"],
    "u": string.ascii_letters + string.digits + "ab",
    "b": string.ascii_letters + string.digits,
}


def certain(text: str) -> list[str]:
    return [find.kind for find in DETECTOR.find(text) if not find.likely]


def likely(text: str) -> list[str]:
    return [find.kind for find in DETECTOR.find(text) if find.likely]


def example(form: str, rng: Random) -> str:
    """A value of the form that a row of the table describes."""
    text = form.replace("{uuid}", uuid(rng)).replace("{jwt}", MAKE["jwt"](rng))
    text = re.sub(r"\{(\d+)([a-zA-Z2])\}", lambda part: "".join(rng.choices(SORTS[part[2]], k=int(part[1]))), text)
    return re.sub(r"(.{30})\{crc\}$", lambda part: part[1] + crc62(part[1]), text)


@pytest.mark.parametrize("row", [row for row in data()["vendors"] if row[4]], ids=lambda row: f"{row[0]} {row[1][:12]}")
def test_the_example_of_a_vendor_is_certain(row: tuple[str, ...]) -> None:
    rng = Random(row[1])
    values = [example(row[4], rng) for _ in range(10)]
    for value in values:
        is_mixed = any(char.isdigit() for char in value.partition(".")[2] or value)
        assert certain(f"use {value} now") == [row[0]] or (row[3] == "mixed" and not is_mixed)


@pytest.mark.parametrize(
    "text",
    [
        '"minipass": "^7.0.4",',
        '"js-tokens": "^4.0.0", "secretlint": "~9.1.0"',
        f"![x](data:image/png;base64,{base64.b64encode(Random(3).randbytes(56_000)).decode()})",
        "arn:aws:secretsmanager:eu-central-1:123456789012:secret:prod/db-AbCdEf",
        "retentive/secret.py,sha256=LR3jDjXKhLifBSb6QECvoCaHi1ujJpoD43c2uwi4e9s,7287",
        "part 123-45-6789 and part 987-65-4329",
        "password rotation: 2026-Q3",
        f"order {ORDER} was shipped",
        f"tracking number {ORDER}",
        "max_tokens=4096, next_page_token: aGVsbG8gd29ybGQgMTIzNA",
    ],
)
def test_ordinary_text_has_no_find(text: str) -> None:
    assert DETECTOR.find(text) == []


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("name,password\nanna,Tulip#77x\nbob,Kiwi_88yz\n", ["password", "password"]),
        ("| user | Passwort |\n|---|---|\n| anna | Tulip#77x |\n", ["password"]),
        ("Her SSN is 536-22-1234", ["us_ssn"]),
        ("The password is hunter2.", ["password"]),
        (ORDER, ["payment_card"]),
    ],
)
def test_columns_prose_and_bare_numbers_are_only_likely(text: str, kinds: list[str]) -> None:
    assert (certain(text), likely(text)) == ([], kinds)


@pytest.mark.parametrize("form", ["postgres://app:{}@db/a", "curl -u app:{} https://x.org"])
def test_a_password_is_certain_only_with_letters_digits_and_six_different_characters(form: str) -> None:
    """Passwords of examples, such as `scott:tiger`, have no digit or few different characters."""
    for example in ("tiger", "correcthorse", "a1a1b2b2a1", "48291057"):
        assert certain(form.format(example)) == [], example
    assert len(likely(form.format("correcthorse"))) == 1
    assert len(certain(form.format("tulip77"))) == 1


@pytest.mark.parametrize(
    "disguised",
    [
        "AKIA\u200bQYLPMN5\u00adHXRZW2TVB",
        "".join(chr(ord(char) + 0xFEE0) for char in KEY),
        f"key: {KEY[:9]}\n    {KEY[9:]}\n",
        f"> {KEY[:12]}\r\n> {KEY[12:]}",
        quote(f"x=postgres://app:Tulip77xz@db/a&key={KEY}", safe=""),
        base64.b64encode(f"AWS_ACCESS_KEY_ID={KEY}".encode()).decode(),
    ],
)
def test_a_disguise_hides_no_certain_value(disguised: str) -> None:
    redacted, kinds = redact(f"see {disguised} there", DETECTOR)
    assert "aws_access_key_id" in kinds or "url_password" in kinds
    assert KEY[12:] not in redacted
    assert redacted.startswith("see ")
    assert redacted.endswith("there")
    assert not certain(redacted)


def test_a_card_number_in_a_path_is_certain() -> None:
    for path in (f"/memories/{ORDER}.md", f"/memories/cards/{ORDER[:4]} {ORDER[4:8]} {ORDER[8:12]} {ORDER[12:]}"):
        assert [(find.kind, find.likely) for find in DETECTOR.find(path, in_path=True)] == [("payment_card", False)]


def test_the_examples_of_the_registry_of_accounts_hold() -> None:
    """Source of the accounts: the examples of the SWIFT IBAN registry."""
    for account in (
        "GB29NWBK60161331926819",
        "NO9386011117947",
        "FR1420041010050500013M02606",
        "MT84MALT011000012345MTLCAST001S",
    ):
        assert is_iban(account)
        assert not is_iban(account[:-1] + ("1" if account[-1] != "1" else "2"))
    assert all(is_iban(iban(Random(seed)).replace(" ", "")) for seed in range(50))
    assert all(certain(f"card {card(Random(seed))}") == ["payment_card"] for seed in range(50))


@pytest.mark.parametrize(
    "text",
    [
        "card_{}_visa",
        "Ann_{}_card.pdf",
        "mycard{}",
        "card-{}.txt",
        "card#{}",
        "kreditkarte={}",
        "card 4539.1488.0343.6467",
        "card 4539  1488  0343  6467",
        "card 4539/1488/0343/6467",
        "card 4539_1488_0343_6467",
        "card: 4539, 1488, 0343, 6467",
        "4539\u20131488\u20130343\u20136467",
        "4539\u00a01488\u00a00343\u00a06467",
        "amex: 3782_822463_10005",
    ],
)
def test_a_card_number_joined_to_words_or_by_odd_signs_is_certain(text: str) -> None:
    assert certain(text.format(ORDER)) == ["payment_card"]


@pytest.mark.parametrize(
    "text",
    [
        "build_4539148803436467",
        "a4539148803436467b",
        "0.4539148803436467",
        "4539:1488:0343:6467",
        "rows 4539, 1488, 0343, 6467",
        "card sizes 4539, 1488, 343, 6467",
        "card 4539.1488.0343.6468",
    ],
)
def test_a_number_that_is_no_card_is_kept(text: str) -> None:
    assert certain(text) == []


@pytest.mark.parametrize("after", ["&_=17", "&flag", "&x[]=1", "&amp;9=1", "&&a=1", "&redirect=https%3A%2F%2Fx"])
@pytest.mark.parametrize(
    "name", ["password", "db_pass", "X-Amz-Security-Token", "api_key", "user.token", "client_secret"]
)
def test_a_value_in_a_query_ends_at_the_next_sign(name: str, after: str) -> None:
    rng = Random(name)
    value = "".join(rng.choices(SORTS["w"], k=28))
    for before in ("https://x.example/?", "https://x.example/?q=tea&", "q=tea&amp;"):
        text = f"{before}{name}={value}{after}"
        assert [(find.start, find.end) for find in DETECTOR.find(text)] == [
            (text.index(value), text.index(value) + len(value))
        ]
