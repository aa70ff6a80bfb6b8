"""Numbers with a public structure: payment cards, bank accounts, US social security numbers.

Formats as published: cards by ISO/IEC 7812-1 (Luhn) and the networks (issuer ranges), accounts by the SWIFT IBAN
registry, social security numbers by ssa.gov ("Social Security Number Randomization").
"""

from __future__ import annotations

import re
from functools import lru_cache

# network, first digits (a range or one value), lengths
CARDS: tuple[tuple[str, str, str], ...] = (
    ("Visa", "4", "13 16 19"),
    ("Mastercard", "51-55 2221-2720", "16"),
    ("American Express", "34 37", "15"),
    ("Discover", "6011 622126-622925 644-649 65", "16 19"),
    ("Diners Club", "300-305 309 36 38-39", "14 16"),
    ("JCB", "3528-3589", "16"),
    ("UnionPay", "62", "16 17 18 19"),
    ("Maestro", "5018 5020 5038 5893 6304 6759 6761-6763", "12 13 14 15 16 17 18 19"),
    ("Mir", "2200-2204", "16"),
    ("RuPay", "60 6521-6522 81 82", "16"),
    ("Troy", "9792", "16"),
    ("Elo", "401178 401179 438935 457631 506699-506778 509000-509999 636368", "16"),
)

# country, structure after the country code and two check digits: n digits, a letters, c letters or digits
IBANS = {
    "AD": "8n12c", "AE": "19n", "AL": "8n16c", "AT": "16n", "AZ": "4a20c", "BA": "16n", "BE": "12n", "BG": "4a6n8c",
    "BH": "4a14c", "BI": "23n", "BR": "23n1a1c", "BY": "4c4n16c", "CH": "5n12c", "CR": "18n", "CY": "8n16c",
    "CZ": "20n", "DE": "18n", "DJ": "23n", "DK": "14n", "DO": "4c20n", "EE": "16n", "EG": "25n", "ES": "20n",
    "FI": "14n", "FK": "2a12n", "FO": "14n", "FR": "10n11c2n", "GB": "4a14n", "GE": "2a16n", "GI": "4a15c",
    "GL": "14n", "GR": "7n16c", "GT": "24c", "HN": "4a20n", "HR": "17n", "HU": "24n", "IE": "4a14n", "IL": "19n",
    "IQ": "4a15n", "IS": "22n", "IT": "1a10n12c", "JO": "4a4n18c", "KW": "4a22c", "KZ": "3n13c", "LB": "4n20c",
    "LC": "4a24c", "LI": "5n12c", "LT": "16n", "LU": "3n13c", "LV": "4a13c", "LY": "21n", "MC": "10n11c2n",
    "MD": "20c", "ME": "18n", "MK": "3n10c2n", "MN": "16n", "MR": "23n", "MT": "4a5n18c", "MU": "4a19n3a",
    "NI": "4a20n", "NL": "4a10n", "NO": "11n", "OM": "3n16c", "PK": "4a16c", "PL": "24n", "PS": "4a21c", "PT": "21n",
    "QA": "4a21c", "RO": "4a16c", "RS": "18n", "RU": "14n15c", "SA": "2n18c", "SC": "4a20n3a", "SD": "14n",
    "SE": "20n", "SI": "15n", "SK": "20n", "SM": "1a10n12c", "SO": "19n", "ST": "21n", "SV": "4a20n", "TL": "19n",
    "TN": "20n", "TR": "6n16c", "UA": "6n19c", "VA": "18n", "VG": "4a16n", "XK": "16n", "YE": "4a4n18c",
}  # fmt: skip
_SORTS = {"n": "[0-9]", "a": "[A-Z]", "c": "[A-Z0-9]"}
NEVER_ISSUED = frozenset({"078051120", "219099999", "123456789"})  # printed in adverts, or plainly typed


def _card_ranges() -> list[tuple[str, str, frozenset[int]]]:
    ranges = []
    for _, starts, lengths in CARDS:
        for start in starts.split():
            low, _, high = start.partition("-")
            ranges.append((low, high or low, frozenset(map(int, lengths.split()))))
    return ranges


_RANGES = _card_ranges()
_FIRST_TWO = sorted(
    {f"{two:02}" for low, high, _ in _RANGES for two in range(int(f"{low}0"[:2]), int(f"{high}9"[:2]) + 1)}
)

# Candidates in the syntax that RE2 and `re` share. A longer run of digits is no number of these.
CARD_DIGITS = rf"(?:{'|'.join(_FIRST_TWO)})[0-9]{{2}}(?:[ -]?[0-9]){{8,15}}"
CARD = CARD_DIGITS + r"(?:\z|[^0-9A-Za-z_ -]|[ -](?:\z|[^0-9]))"
IBAN = rf"(?:{'|'.join(IBANS)})[0-9]{{2}}(?:[ -]?[A-Z0-9]{{4}}){{2,7}}(?:[ -]?[A-Z0-9]{{1,3}})?"
SSN = r"[0-8][0-9]{2}-[0-9]{2}-[0-9]{4}"


_WITHOUT_GAPS = str.maketrans("", "", " -\u00a0")
_AS_NUMBERS = str.maketrans({char: str(int(char, 36)) for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"})
_DOUBLED = str.maketrans("0123456789", "0246813579")  # cross sums of the doubled digits


def is_card(value: str) -> bool:
    """Return whether the digits are in a range of an issuer, of its length, with a valid Luhn check digit."""
    digits = value.replace(" ", "").replace("-", "")
    if (sum(map(int, digits[-1::-2])) + sum(map(int, digits[-2::-2].translate(_DOUBLED)))) % 10:
        return False
    issued = any(low <= digits[: len(low)] <= high and len(digits) in sizes for low, high, sizes in _RANGES)
    return issued and len(set(digits)) > (1 if digits.startswith("4") else 2)


def is_grouped_card(value: str) -> bool:
    """Return whether the digits are grouped as on a card: 4-4-4-4, 4-6-5, 4-6-4 or 4-3-3-3."""
    groups = r"\d{4}([ -])(?:\d{4}\1\d{4}\1\d{4}(?:\1?\d{3})?|\d{6}\1\d{4,5}|\d{3}\1\d{3}\1\d{3})"
    return re.fullmatch(groups, value) is not None


def is_iban(value: str) -> bool:
    """Return whether the structure fits the country and the checksum is 1 modulo 97 (ISO 13616)."""
    plain = value.translate(_WITHOUT_GAPS).upper()
    pattern = _structure(plain[:2])
    return (
        pattern is not None
        and pattern.fullmatch(plain) is not None
        and int((plain[4:] + plain[:4]).translate(_AS_NUMBERS)) % 97 == 1
    )


@lru_cache(maxsize=len(IBANS))
def _structure(country: str) -> re.Pattern[str] | None:
    if country not in IBANS:
        return None
    parts = re.sub(r"(\d+)([nac])", lambda part: f"{_SORTS[part[2]]}{{{part[1]}}}", IBANS[country])
    return re.compile(f"[A-Z]{{2}}[0-9]{{2}}{parts}")


def is_ssn(value: str) -> bool:
    """Return whether a US social security number can be assigned."""
    digits = re.sub(r"\D", "", value)
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    never = area in {"000", "666"} or area >= "900" or group == "00" or serial == "0000"
    return not never and digits not in NEVER_ISSUED and len(set(digits)) > 1
