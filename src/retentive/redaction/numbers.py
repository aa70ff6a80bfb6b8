"""Numbers with a public structure: payment cards (Luhn), bank accounts (IBAN), US social security numbers.

Source for social security numbers: ssa.gov, "Social Security Number Randomization".
"""

# ruff: noqa: E501 - a pattern is a line

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from retentive.redaction.issuers import CARDS, IBANS
from retentive.redaction.rules import Find
from retentive.redaction.search import alternatives

_SORTS = {"n": "[0-9]", "a": "[A-Z]", "c": "[A-Z0-9]"}
NEVER_ISSUED = frozenset({"078051120", "219099999", "123456789"})  # printed in advertisements, or obviously made up


def _card_ranges() -> list[tuple[str, str, frozenset[int]]]:
    ranges = []
    for _, starts, lengths in CARDS:
        for start in starts.split():
            low, _, high = start.partition("-")
            ranges.append((low, high or low, frozenset(map(int, lengths.split()))))
    return ranges


_RANGES = _card_ranges()


def _card_starts() -> dict[str, str]:
    """Shortest prefixes of card numbers, each with a pattern for the rest of the first four digits."""
    starts = {str(four) for low, high, _ in _RANGES for four in range(int(f"{low:0<4.4}"), int(f"{high:9<4.4}") + 1)}
    for size in (3, 2, 1):
        for start in {text[:size] for text in starts}:
            longer = {start + digit for digit in "0123456789"}
            starts = starts - longer | {start} if longer <= starts else starts
    return {start: "[0-9]" * (4 - len(start)) for start in sorted(starts)}


def _account(parts: str) -> str:
    """Pattern of an IBAN after the country code, with optional separators between groups of four characters."""
    sorts = "".join(sort * int(count) for count, sort in re.findall(r"(\d+)([nac])", parts))
    groups = [sorts[at : at + 4] for at in range(0, len(sorts), 4)]
    runs = ("".join(f"{_SORTS[sort]}{{{len(list(run))}}}" for sort, run in groupby(group)) for group in groups)
    return "[0-9]{2}" + "".join(f"[ -]?{run}" for run in runs)


# Patterns of candidates, in the syntax that RE2 and `re` share. A longer run of digits does not match.
CARD_DIGITS = rf"{alternatives(_card_starts())}(?:[ -]?[0-9]){{8,15}}"
CARD = CARD_DIGITS + r"(?:\z|[^0-9A-Za-z_ -]|[ -](?:\z|[^0-9]))"
IBAN = alternatives({country: _account(parts) for country, parts in IBANS.items()})
SSN = r"[0-8][0-9]{2}-[0-9]{2}-[0-9]{4}"


# A number in a name (`card_4539..._visa`), or in groups with punctuation or odd spaces between them.
SEEK_JOINED = (
    r"(?:[2-6][0-9]{13}"
    r"|[2-6][0-9]{3}[^0-9A-Za-z\n]{1,3}[0-9]{4}[^0-9A-Za-z\n]{1,3}[0-9]{4}[^0-9A-Za-z\n]{1,3}[0-9]{4}"
    r"|3[47][0-9]{2}[^0-9A-Za-z\n]{1,3}[0-9]{6}[^0-9A-Za-z\n]{1,3}[0-9]{5})"
)
_JOINED = re.compile(r"(?:[0-9]{14,19}|[0-9]{4}(?:[^0-9A-Za-z\n]{1,3}(?:[0-9]{4}|[0-9]{6})){2,3}[0-9]{0,3})(?![0-9])")
_EVEN_GROUPS = re.compile(r"\d{4}([\u00a0\u2000-\u200a\u202f\u3000\u2010-\u2015\u2212])\d{4}\1\d{4}\1\d{4}")

_WITHOUT_GAPS = str.maketrans("", "", " -\u00a0")
_AS_NUMBERS = str.maketrans({char: str(int(char, 36)) for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"})
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")  # digit sums of the doubled digits


def is_card(value: str) -> bool:
    """Return whether the digits have a valid Luhn check digit, and the prefix and length that an issuer uses."""
    digits = value.replace(" ", "").replace("-", "")
    data = digits.encode()
    if (sum(data[-1::-2]) + sum(data[-2::-2].translate(_DOUBLED)) - len(data) * ord("0")) % 10:
        return False
    issued = any(low <= digits[: len(low)] <= high and len(digits) in sizes for low, high, sizes in _RANGES)
    return issued and len(set(digits)) > (1 if digits.startswith("4") else 2)


def is_grouped_card(value: str) -> bool:
    """Return whether the digits are grouped as on a card: 4-4-4-4, 4-6-5, 4-6-4 or 4-3-3-3."""
    groups = r"\d{4}([ -])(?:\d{4}\1\d{4}\1\d{4}(?:\1?\d{3})?|\d{6}\1\d{4,5}|\d{3}\1\d{3}\1\d{3})"
    return re.fullmatch(groups, value) is not None


def is_iban(value: str) -> bool:
    """Return whether the checksum is valid (ISO 13616). The caller must already have matched the pattern `IBAN`."""
    plain = value.translate(_WITHOUT_GAPS)
    return int((plain[4:] + plain[:4]).translate(_AS_NUMBERS)) % 97 == 1


def is_ssn(value: str) -> bool:
    """Return whether this US social security number can have been issued."""
    digits = re.sub(r"\D", "", value)
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    never = area in {"000", "666"} or area >= "900" or group == "00" or serial == "0000"
    return not never and digits not in NEVER_ISSUED and len(set(digits)) > 1


# These patterns match text in lower case.
_CARD_WORDS = re.compile(
    r"card|visa|master|amex|american express|discover|diners|jcb|unionpay|maestro|\bpan\b|\bcc\b|cvv|cvc|karte|carte|tarjeta"
    r"|cart[aã]o|カード|卡|クレジット|zahlung|payment|\bexp\b"
)
_OTHER_NUMBER = re.compile(
    r"order|invoice|tracking|shipment|serial|ticket|isbn|imei|article|product|sku|part|account|customer|transaction|reference|\bref\b"
    r"|bestell|rechnung|auftrag|kunden|vorgang|sendung|commande|facture|num[eé]ro de s|pedido|factura|注文|订单|訂單|番号|编号|\bid\b|_id\b|timestamp|epoch|offset|size|bytes|seed|phone|tel\b|uid|build"
)
_SSN_WORDS = re.compile(r"ssn(?![a-z])|social.?security|soc\.? ?sec|sozialversicherung|sécurité sociale|社会保障")
_OTHER_SSN = re.compile(r"part|item|order|serial|invoice|sku|model|catalog|article|phone", re.IGNORECASE)


_ALNUM = re.compile("[0-9A-Za-z]")
_MORE_DIGITS = re.compile(r"[.,-]\d|[ -]\d{4}")
_DIGITS_BEFORE = re.compile(r"\d[ .,-]?$|[$€£.+/_-]$")
_IN_A_ROW = re.compile(r"[,(\[]\s?$")
_TABLE_CHARS = 4_000  # characters before a number in which the heading of its table is searched
_NUMBER = re.compile(rf"(?:{CARD_DIGITS}|{IBAN}|{SSN})(?![0-9A-Za-z_])")


def find_numbers(text: str, start: int, end: int, *, in_path: bool = False) -> Iterator[Find]:
    """Yield the card, account or social security number at a candidate.

    A card number is certain if it is in a path, is grouped as on a card, or has words about cards near it. Otherwise it
    is only likely.
    """
    first = start + (2 if text[start] == "\\" and text[start + 1] in "nrt" else not _ALNUM.match(text, start))
    number = _NUMBER.match(text, first)
    if number is None:
        return
    value, end = number[0], number.end()
    is_account, is_social = value[:1].isalpha(), value[3:4] == "-" == value[6:7]
    if not (is_iban(value) if is_account else is_ssn(value) if is_social else is_card(value)):
        return
    before = text[max(0, first - 60) : first].rpartition("\n")[2].lower()
    column = "" if is_account or in_path else _column(text, first).lower()
    edge = before[-2:] if not in_path else before[-1:].replace("/", "")
    is_part = (not is_account and _MORE_DIGITS.match(text, end)) or _DIGITS_BEFORE.search(edge)
    if is_part and not column:  # in a table, a comma before or after the number separates cells
        return
    if is_account:
        yield Find("iban", first, end)
    elif is_social:
        if _SSN_WORDS.search(f"{column}\n{before}") and not _OTHER_SSN.search(before[-12:]):
            yield Find("us_ssn", first, end, likely=True)
    else:
        after = text[end : end + 40].partition("\n")[0].lower()
        about = _CARD_WORDS.search(f"{column}\n{before}\n{after}") is not None
        in_row = not in_path and _IN_A_ROW.search(before) is not None
        if about or not (in_row or _OTHER_NUMBER.search(f"{column}\n{before}")):
            yield Find("payment_card", first, end, likely=not (about or in_path or is_grouped_card(value)))


def find_joined(text: str, start: int, end: int) -> Iterator[Find]:
    """Yield a card number in a name or with odd separators, if a word about cards is near it on the line."""
    number = _JOINED.match(text, start)
    if number is None or text[start - 1 : start].isdigit() or not is_card(re.sub(r"\D", "", number[0])):
        return
    first, end = number.span()
    before = text[max(0, first - 40) : first].rpartition("\n")[2].lower()
    after = text[end : end + 30].partition("\n")[0].lower()
    if re.search(r"\d[.,]$", before) or re.match(r"[.,]\d", after):
        return
    if _EVEN_GROUPS.fullmatch(number[0]) or _CARD_WORDS.search(f"{before}\n{after}"):
        yield Find("payment_card", first, end)


def _column(text: str, at: int) -> str:
    """Heading of the table column that contains a position, in CSV or Markdown. Empty outside a table."""
    low = max(0, at - _TABLE_CHARS)
    top = text.rfind("\n\n", low, at) + 2 if text.find("\n\n", low, at) >= 0 else low
    row = text.rfind("\n", top, at) + 1
    if row <= top or (top == low > 0):
        return ""
    head = text[top : min(row, top + 400)].partition("\n")[0]
    for separator in "|\t;,":
        cells, number = head.split(separator), text.count(separator, row, at)
        if 0 < number < len(cells) or (number == 0 and len(cells) > 1):
            return cells[number]
    return ""
