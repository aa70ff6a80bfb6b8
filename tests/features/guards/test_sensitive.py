"""Detection of sensitive values: spans, markers, kinds, rules of applications, disguises, and text that must stay."""

from __future__ import annotations

import base64
import re
import string
from random import Random
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.errors import InvalidInput
from retentive.redaction.detector import KINDS, Detector, Find, Rule
from retentive.redaction.numbers import is_iban
from retentive.redaction.rules import data
from support.detection.draw import ALPHABETS, crc62, uuid
from support.detection.judge import redact
from support.detection.values import kinds

DETECTOR = Detector()
MAKE = {kind.name: kind.make for kind in kinds()}
github, card, iban, pem = (MAKE[name] for name in ("github-classic", "card-visa", "iban-DE", "rsa-private-key"))
PIECES = [
    "password", "pw", "token", "密码", ": ", "=", " is ", " ", "\n", '"', "'", "|", "@", "://bob:", "-p", "mysql ",
    "[REDACTED:", "[REDACTED]", "[REDACTED:password]", "[REDACTED:github_token]", "[REDACTED:x1]", "]", "a", "hunter2",
    "Xk9#mQ2zv", "xyz9Kq2", "swordfish", "4539 1488 0343 6467", "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zAb",
]  # fmt: skip


def values(text: str, detector: Detector = DETECTOR) -> list[tuple[str, str]]:
    return [(find.kind, text[find.start : find.end]) for find in detector.find(text)]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("The password is hunter2.", "password", "hunter2"),
        ('Its password is "hunter2".', "password", "hunter2"),
        ("Das Passwort lautet „Blume77!“, bitte merken", "password", "Blume77!"),
        ("Le mot de passe du serveur est « Tulipe42 ».", "password", "Tulipe42"),
        ("パスワードは「tanuki99!」です。", "password", "tanuki99!"),
        ("密码是hello2024，请保存", "password", "hello2024"),
        ("`password: s3cr3t-pw`", "password", "s3cr3t-pw"),
        ("| DB password | `Xk29!pqz` |", "password", "Xk29!pqz"),
        ("password: Xk29!pqz\r\nhost: db\r\n", "password", "Xk29!pqz"),
        ("see https://x.org/?password=Xk29pqz&next=1", "password", "Xk29pqz"),
        ("postgres://bob:Xk29!pqz@db/app", "url_password", "Xk29!pqz"),
        ("Server=db;User Id=sa;Password=Xy9!kk2;Encrypt=true", "connection_string", "Xy9!kk2"),
        ("Authorization: Basic YWRtaW46WGsyOSFwcXo=", "authorization_header", "YWRtaW46WGsyOSFwcXo="),
        ("Card 4539 1488 0343 6467.", "payment_card", "4539 1488 0343 6467"),
        ("Konto DE89 3704 0044 0532 0130 00, danke", "iban", "DE89 3704 0044 0532 0130 00"),
        ("ssn: 536-22-1234.", "us_ssn", "536-22-1234"),
        ("password: 0xDeadBeef!23", "password", "0xDeadBeef!23"),
        ("DB_PASSWORD=0x7Gk!mQ2zv9", "password", "0x7Gk!mQ2zv9"),
        ("password: Tr0ub4dor&3Key", "password", "Tr0ub4dor&3Key"),
        ("secret=0xKq9trZ82mNpQ7wLs4", "secret", "0xKq9trZ82mNpQ7wLs4"),
        (
            "PRIVATE_KEY=0x4c0883a691029fe2" + "37d6231471b5dbb6" * 3,
            "secret",
            "0x4c0883a691029fe2" + "37d6231471b5dbb6" * 3,
        ),
        ("(AKIAQYLPMN5HXRZW2TVB)", "aws_access_key_id", "AKIAQYLPMN5HXRZW2TVB"),
    ],
)
def test_a_find_covers_exactly_the_value(text: str, kind: str, value: str) -> None:
    assert values(text) == [(kind, value)]


def test_redacted_text_names_the_kinds_in_order_and_has_no_finds() -> None:
    text, kinds = redact("pw: hunter2x9\ncard 4539 1488 0343 6467\npw: hunter2x9\n", DETECTOR)
    assert text == "pw: [REDACTED:password]\ncard [REDACTED:payment_card]\npw: [REDACTED:password]\n"
    assert kinds == ["password", "payment_card", "password"]
    assert redact(text, DETECTOR) == (text, [])


def test_a_marker_hides_no_token_beside_it() -> None:
    token, mark = github(Random(4)), "[REDACTED:password]"
    assert redact(f"{mark}{token}", DETECTOR) == (f"{mark}[REDACTED:github_token]", ["github_token"])


@pytest.mark.parametrize(
    "text",
    [
        "password: [REDACTED:password]",
        "The password is [REDACTED:password]! And then?",
        "pw=[REDACTED:password]&next=1",
        "postgres://bob:[REDACTED:url_password]@db/app",
        "sshpass -p[REDACTED:password] rsync -a",
        "bot[REDACTED:telegram_token]/send",
        "密码是[REDACTED:password]请保存",
        "password: [REDACTED]",
        "password: [REDACTED:PASSWORD]",
        "password = '[REDACTED:email][REDACTED:phone]'",
    ],
)
def test_a_marker_of_a_known_kind_that_is_a_whole_value_stays(text: str) -> None:
    assert redact(text, DETECTOR) == (text, [])


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_redacting_again_changes_nothing(text: str) -> None:
    once, kinds = redact(text, DETECTOR)
    assert redact(once, DETECTOR) == (once, [])
    assert (once == text) == (not kinds)


def test_positions_are_right_after_characters_of_any_width() -> None:
    text = "İ\U0001f600ẞ\ud800ﬁ" * 2_000 + " PASSWORD: Xk29!pqz"
    assert values(text) == [("password", "Xk29!pqz")]


@pytest.mark.parametrize("before", [0, 1, 4_000, 4_090, 4_096, 8_180, 100_000])
def test_a_value_is_found_at_any_position_of_a_long_text(before: int) -> None:
    rng = Random(before)
    for make, kind in ((github, "github_token"), (card, "payment_card"), (iban, "iban"), (pem, "private_key")):
        value = make(rng)
        text = ("word " * (before // 5 + 1))[: max(before - 1, 0)] + " " * bool(before) + value + " end" * 2_000
        assert values(text) == [(kind, value)]


def test_overlapping_finds_become_one_of_the_most_specific_kind() -> None:
    token = github(Random(1))
    assert values(f"password: {token}") == [("github_token", token)]
    assert values(f"Authorization: Bearer {token}") == [("github_token", token)]


def test_email_and_phone_are_off_by_default() -> None:
    text = "anna@example.org, +49 30 1234567"
    assert values(text) == []
    assert values(text, Detector(["email", "phone"])) == [("email", "anna@example.org"), ("phone", "+49 30 1234567")]
    assert {name for name, is_on in KINDS.items() if not is_on} == {"email", "phone"}
    assert len(KINDS) > 100


def test_an_application_adds_rules_and_functions() -> None:
    rule = Rule("employee_id", r"\bEMP-(?P<value>\d{6})\b", lambda value: value != "000000")
    detector = Detector([], [rule], [lambda text: [Find("code_name", 0, 4)] if text.startswith("Odin") else []])
    text = "Odin is EMP-123456, not EMP-000000"
    assert values(text, detector) == [("code_name", "Odin"), ("employee_id", "123456")]
    assert redact(text, detector)[0] == "[REDACTED:code_name] is EMP-[REDACTED:employee_id], not EMP-000000"
    assert redact(redact(text, detector)[0], detector)[1] == []


@pytest.mark.parametrize("pattern", ["(", "[a", "(?P<value>a)(?P<value>b)", "a{99999999999999999999}"])
def test_a_bad_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput, match="'mine'"):
        Detector(rules=[Rule("mine", pattern)])


@pytest.mark.parametrize("name", ["", "Mine", "a b", "a]", "x" * 41])
def test_a_rule_needs_a_name_that_fits_the_marker(name: str) -> None:
    with pytest.raises(InvalidInput):
        Rule(name, "x")


@pytest.mark.parametrize("find", [Find("x", 0, 99), Find("x", -1, 1), Find("x", 2, 2), Find("X y", 0, 1)])
def test_a_find_outside_the_text_is_refused(find: Find) -> None:
    with pytest.raises(InvalidInput):
        Detector([], detectors=[lambda _text: [find]]).find("some text")


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
        "4539 1488 0343 6468, DE89 3704 0044 0532 0130 01, 000-12-3456",  # wrong checksums
        "pwd = 0x10",
        "token: 0x6B175474E89094C44Da98b954EedeAC495271d0F",
        "token=UserToken2Key",
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
