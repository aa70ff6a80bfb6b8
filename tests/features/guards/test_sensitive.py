"""Detection of sensitive values: spans, markers, kinds, custom rules, redaction."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.errors import InvalidInput
from retentive.redaction.detector import KINDS, Detector, Find, Rule
from support.detection.redaction import redact
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


@pytest.mark.parametrize(
    "text", ["pwd = 0x10", "token: 0x6B175474E89094C44Da98b954EedeAC495271d0F", "token=UserToken2Key"]
)
def test_numbers_addresses_and_names_are_kept(text: str) -> None:
    assert values(text) == []


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


def test_text_without_sensitive_values_is_unchanged() -> None:
    text = "Zażółć gęślą jaźń \U0001f600 \ud800 and İstanbul, password: required\r\n"
    assert redact(text, DETECTOR) == (text, [])


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


def test_numbers_with_a_wrong_checksum_are_kept() -> None:
    text = "4539 1488 0343 6468, DE89 3704 0044 0532 0130 01, 000-12-3456"
    assert values(text) == []


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


def test_only_selected_kinds_are_found() -> None:
    text = f"pw: hunter2x9 and {github(Random(2))}"
    assert [kind for kind, _ in values(text, Detector(["password"]))] == ["password"]
    assert values(text, Detector([])) == []


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
