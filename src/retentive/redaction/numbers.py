"""Numbers with a public structure: payment cards (Luhn), bank accounts (IBAN), US social security numbers.

Sources: ISO/IEC 7812-1 and the card networks; the SWIFT IBAN registry; ssa.gov, "Social Security Number
Randomization".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from retentive.redaction.rules import Find

# By network: first digits, as values or ranges, and lengths.
_CARDS = (
    ("4", "13 16 19"),  # Visa
    ("51-55 2221-2720", "16"),  # Mastercard
    ("34 37", "15"),  # American Express
    ("6011 622126-622925 644-649 65", "16 19"),  # Discover
    ("300-305 309 36 38-39", "14 16"),  # Diners Club
    ("3528-3589", "16"),  # JCB
    ("62", "16 17 18 19"),  # UnionPay
    ("5018 5020 5038 5893 6304 6759 6761-6763", "12 13 14 15 16 17 18 19"),  # Maestro
    ("2200-2204 60 6521-6522 81 82 9792", "16"),  # Mir, RuPay, Troy
    ("401178 401179 438935 457631 506699-506778 509000-509999 636368", "16"),  # Elo
)
_RANGES = [
    (*first.partition("-")[::2], set(map(int, sizes.split()))) for firsts, sizes in _CARDS for first in firsts.split()
]
# Characters of an account number by country.
_IBANS = {country: int(size) for country, size in re.findall(
    r"([A-Z]{2})(\d+)",
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29"
    " ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20"
    " LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29"
    " PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20"
    " YE30",
)}  # fmt: skip
_NEVER_ISSUED = {"078051120", "219099999", "123456789"}  # printed in advertisements, or obviously made up
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")  # digit sums of the doubled digits

_CARD = re.compile(r"[2-9](?<![0-9][2-9])[0-9]{3}(?:[0-9]{8,15}|(?:[^0-9A-Za-z\n]{0,3}[0-9]{2,8}){1,4})(?![0-9])")
_IBAN = re.compile(r"[A-Z](?<![0-9A-Za-z_][A-Z])[A-Z][0-9]{2}(?:[ -]?[A-Z0-9]{2,4}){3,8}[A-Z0-9 -]{0,3}")
_SSN = re.compile(r"[0-8](?<![0-9A-Za-z_][0-8])[0-9]{2}-[0-9]{2}-[0-9]{4}(?![0-9A-Za-z_])")
_GROUPED = re.compile(r"\d{4}([ -])(?:\d{4}\1\d{4}\1\d{4}(?:\1?\d{3})?|\d{6}\1\d{4,5}|\d{3}\1\d{3}\1\d{3})")
_EVEN_GROUPS = re.compile(r"\d{4}([\u00a0\u2000-\u200a\u202f\u3000\u2010-\u2015\u2212])\d{4}\1\d{4}\1\d{4}")
# These patterns match text in lower case.
_CARD_WORDS = re.compile(
    r"card|visa|master|amex|american express|discover|diners|jcb|unionpay|maestro|\bpan\b|\bcc\b|cvv|cvc|karte|carte"
    r"|tarjeta|cart[aã]o|カード|卡|クレジット|zahlung|payment|\bexp\b"
)
_OTHER_NUMBER = re.compile(
    r"order|invoice|tracking|shipment|serial|ticket|isbn|imei|article|product|sku|part|account|customer|transaction"
    r"|reference|\bref\b|bestell|rechnung|auftrag|kunden|vorgang|sendung|commande|facture|num[eé]ro de s|pedido"
    r"|factura|注文|订单|訂單|番号|编号|\bid\b|_id\b|timestamp|epoch|offset|size|bytes|seed|phone|tel\b|uid|build"
)
_SSN_WORDS = re.compile(r"ssn(?![a-z])|social.?security|soc\.? ?sec|sozialversicherung|sécurité sociale|社会保障")
_OTHER_SSN = re.compile(r"part|item|order|serial|invoice|sku|model|catalog|article|phone")
_BOUND = re.compile(r"(?:\A|[^0-9A-Za-z_]|\\[nrt])\Z")
_MORE_DIGITS = re.compile(r"[.,-]\d|[ -](?=[a-f]*[0-9])[0-9a-f]{4,5}\b", re.IGNORECASE)  # also in a list of hex
_HEX_BEFORE = re.compile(r"\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{4,5} \Z")
_DIGITS_BEFORE = re.compile(r"\d[ .,-]?$|[$€£.+/_-]$")
_TABLE_CHARS = 4_000  # characters before a number in which the heading of its table is searched


def find(text: str, *, in_path: bool = False) -> Iterator[Find]:
    """Yield the card, account and social security numbers in a text.

    A card number is certain if it is in a path, is grouped as on a card, or has words about cards near it. Otherwise it
    is only likely.
    """
    for match in _CARD.finditer(text):
        end = _end_of(match, is_card)
        find = _card(text, match.start(), end, in_path=in_path) if end else None
        if find is not None:
            yield find
    for match in _IBAN.finditer(text):
        end = _end_of(match, is_iban)
        before, after = text[max(0, match.start() - 2) : match.start()], text[end : end + 1]
        if end and not _DIGITS_BEFORE.search(before) and not (after.isalnum() and after.isascii()) and after != "_":
            yield Find("iban", match.start(), end)
    for match in _SSN.finditer(text):
        before = text[max(0, match.start() - 60) : match.start()].rpartition("\n")[2].lower()
        about = f"{_column(text, match.start())}\n{before}"
        if is_ssn(match[0]) and _SSN_WORDS.search(about) and not _OTHER_SSN.search(before[-12:]):
            yield Find("us_ssn", *match.span(), likely=True)


def _card(text: str, start: int, end: int, *, in_path: bool) -> Find | None:
    value = text[start:end]
    before = text[max(0, start - 60) : start].rpartition("\n")[2].lower()
    after = text[end : end + 40].partition("\n")[0].lower()
    column = "" if in_path else _column(text, start)
    edge = before[-1:].replace("/", "") if in_path else before[-2:]
    is_name = not _BOUND.search(text[max(0, start - 2) : start]) or re.match("[0-9a-z_]", after)
    is_part = _MORE_DIGITS.match(text, end) or _DIGITS_BEFORE.search(edge) or _HEX_BEFORE.search(before)
    # In a table, a comma before or after the number separates cells.
    if is_name or (is_part and not column) or not re.fullmatch("[0-9]+(?:[ -][0-9]+)*", value):
        # In a name (`card_4539..._visa`), or in groups with punctuation or odd spaces between them.
        is_part = re.search(r"\d[.,]$", before) or re.match(r"[.,]\d", after)
        near = _EVEN_GROUPS.fullmatch(value) or _CARD_WORDS.search(f"{before[-40:]}\n{after[:30]}")
        return Find("payment_card", start, end) if near and not is_part else None
    about = _CARD_WORDS.search(f"{column}\n{before}\n{after}")
    is_other = re.search(r"[,(\[]\s?$", before) and not in_path
    if not about and (is_other or _OTHER_NUMBER.search(f"{column}\n{before}")):
        return None
    return Find("payment_card", start, end, likely=not (about or in_path or _GROUPED.fullmatch(value)))


def is_card(digits: str) -> bool:
    """Return whether the digits have a valid Luhn check digit, and the prefix and length that an issuer uses."""
    data = digits.encode()
    if (sum(data[-1::-2]) + sum(data[-2::-2].translate(_DOUBLED)) - len(data) * ord("0")) % 10:
        return False
    is_issued = any(low <= digits[: len(low)] <= (high or low) and len(digits) in sizes for low, high, sizes in _RANGES)
    return is_issued and len(set(digits)) > (1 if digits.startswith("4") else 2)


def is_iban(value: str) -> bool:
    """Return whether the length is right for the country, and the checksum is valid (ISO 13616)."""
    if len(value) != _IBANS.get(value[:2]):
        return False
    return int("".join(str(int(char, 36)) for char in value[4:] + value[:4])) % 97 == 1


def is_ssn(value: str) -> bool:
    """Return whether this US social security number can have been issued."""
    area, group, serial = value.split("-")
    never = area in {"000", "666"} or area >= "900" or group == "00" or serial == "0000"
    digits = area + group + serial
    return not never and digits not in _NEVER_ISSUED and len(set(digits)) > 1


def _end_of(match: re.Match[str], check: Callable[[str], bool]) -> int:
    """Return the end of the longest valid number at the start of a match; 0 if there is none."""
    for group in reversed([*re.finditer("[0-9A-Z]+", match[0])]):
        number = re.sub("[^0-9A-Z]", "", match[0][: group.end()])
        if 12 <= len(number) <= 34 and check(number):
            return match.start() + group.end()
    return 0


def _column(text: str, at: int) -> str:
    """Heading, in lower case, of the table column at a position, in CSV or Markdown. Empty outside a table."""
    low = max(0, at - _TABLE_CHARS)
    top = text.rfind("\n\n", low, at) + 2 if text.find("\n\n", low, at) >= 0 else low
    row = text.rfind("\n", top, at) + 1
    if row <= top or (top == low > 0):
        return ""
    head = text[top : min(row, top + 400)].partition("\n")[0]
    for separator in "|\t;,":
        cells, number = head.split(separator), text.count(separator, row, at)
        if 0 < number < len(cells) or (number == 0 and len(cells) > 1):
            return cells[number].lower()
    return ""
