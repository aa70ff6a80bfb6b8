"""Values that their surroundings make certain: private keys, URLs and connection strings, headers, signatures.

A row: kind, pattern to seek in the syntax of RE2, pattern of the whole with the group `value`, check, and True if case
does not matter. The second pattern is matched where the first one starts.
"""

# ruff: noqa: E501 - a row of a table is a line

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from retentive.redaction.checks import (
    decode_base64,
    is_checked_token,
    is_jwt,
    is_random,
    is_scrambled,
    is_snowflake_token,
)
from retentive.redaction.numbers import CARD_DIGITS, IBAN, SSN, is_card, is_grouped_card, is_iban, is_ssn
from retentive.redaction.rules import Find
from retentive.redaction.words import is_placeholder

_PEM = r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_PEM_BODY = r"(?:[A-Za-z0-9+/=\\\s:,.;>|*()\"'_@<]|-(?!-))"
_CONNECTION = "server=|data source=|host=|hostname=|driver=|dsn=|jdbc:|user id=|uid=|username=|initial catalog=|dbname=|addr=|endpoint="
_FIRST = r"(?:\$?\{[\w.]{1,40}\}|[^\s:/@\"'`<>{}$\[\]])"
_ARG = r"[\"']?(?P<value>[^\s\"'`$<>|;-][^\s\"'`<>|;]{3,100})"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


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


def _is_url_password(value: str) -> bool:
    return len(value) >= 3 and not is_placeholder(value)


def _is_pem(value: str) -> bool:
    body = re.sub(r"-----[^-\n]*-----", "", value)
    return sum(map(len, re.findall(r"[A-Za-z0-9+/]{16,}", body))) >= 40 and "..." not in body and is_random(body[-60:])


def _is_bearer(value: str) -> bool:
    if is_placeholder(value) or not is_random(value) or not re.search(r"\d", value):
        return False
    return re.search(r"[A-Za-z]", value) is not None and max(map(len, re.split(r"[-_./]", value))) >= 8


Form = tuple[str, str, str, Callable[[str], bool], bool]

FORMS: tuple[Form, ...] = (
    ("gcp_service_account_key", "\"private_key\"[ \t]*:[ \t]*\"-----BEGIN",
     rf"\"private_key\"\s*:\s*\"(?P<value>{_PEM}[^\"]{{40,8000}}?-----END [A-Z ]+-----(?:\\n)?)", _is_pem, False),
    ("password", "auth[a-z]*[=(]+[\"'][^\"'\\n]+[\"'],[ ]*[\"'][^\"'\\s]{5}", r"auth[a-z]*[=(]+[\"'][^\"'\n]{1,80}[\"'], *[\"'](?P<value>[^\"'\s]{5,100})[\"']", _is_real, True),
    ("private_key", "-----BEGIN [A-Z0-9 ]*PRIVATE KEY",
     rf"(?P<value>{_PEM}(?:{_PEM_BODY}{{40,20000}}?-----END [A-Z0-9 ]{{1,40}}-----|[A-Za-z0-9+/=\\\s]{{40,20000}}))", _is_pem, False),
    ("private_key", "\"d\"[ \t]{0,3}:[ \t]{0,3}\"[A-Za-z0-9_-]{40}", r"\"d\"\s{0,3}:\s{0,3}\"(?P<value>[A-Za-z0-9_-]{40,700})\"", is_mixed, False),
    ("private_key", "Private-Lines: ?[0-9]", r"Private-Lines: ?\d+\s+(?P<value>(?:[A-Za-z0-9+/=]{4,80}\s+){1,100}Private-MAC: ?[0-9a-f]{40,64})", is_random, False),
    ("url_password", "://[^\\s/@\"'<>`:]*:[^\\s/@\"'`<>]+@",
     rf"://(?P<user>{_FIRST}{{0,100}}):(?!(?P=user)@)(?P<value>[^\s/@\"'`<>]{{3,200}}(?:@[^\s/@\"'`<>:]{{1,60}})?)@(?=[\[A-Za-z0-9_$\{{-])", _is_url_password, False),
    ("connection_string", f"(?:{_CONNECTION})(?:[^\\n\"'`,()]*[;?& ])?(?:password|pwd)[ ]*=[ ]*[^\\s;\"'`&<>]{{3}}",
     rf"(?:{_CONNECTION})(?:[^\n\"'`,()]{{0,300}}?[;?& ])(?:password|pwd)\s{{0,3}}=\s{{0,3}}(?P<value>\{{[^}}\n]{{3,100}}\}}|[^\s;\"'`&<>{{}}]{{3,200}})(?=\s|[;\"'`&<>]|$)", _is_url_password, True),
    ("connection_string", "(?:jdbc:oracle:[a-z]+:|sqlplus )[^\\s@]*/[^\\s@]+@",
     r"(?:jdbc:oracle:\w+:|sqlplus\s+(?:-\w+\s+)*)[\w$#]{1,30}/(?P<value>[^\s@/\"'$]{3,64})@", _is_url_password, True),
    ("connection_string", ":[^\\s:@/\"'`<>{}()$]+@(?:tcp\\(|unix\\(|[a-z0-9.-]+:[0-9]{2})",
     r"(?<![\w/:.@-])[A-Za-z][\w.-]{0,40}:(?P<value>[^\s:@/\"'`<>{}()$]{4,64})@(?:[A-Za-z0-9.-]{1,60}:\d{2,5}(?!\d)|(?:tcp|unix)\()", _is_real, True),
    ("azure_storage_key", "accountkey=[a-z0-9+/]{86}==", r"AccountKey=(?P<value>[A-Za-z0-9+/]{86}==)", is_random, True),
    ("azure_connection_key", "sharedaccesskey=[a-z0-9+/]{42}", r"SharedAccessKey=(?P<value>[A-Za-z0-9+/]{42,44}={0,2})", is_random, True),
    ("azure_sas", "[?&;\"'](?:amp;)?sig=[a-z0-9%+/_-]{40}", r"[?&;\"'](?:amp;)?sig=(?P<value>[A-Za-z0-9%+/_-]{40,120}={0,2})", is_random, True),
    ("secret", "x-(?:amz|goog)-signature=[0-9a-f]{64}", r"x-(?:amz|goog)-signature=(?P<value>[0-9a-f]{64,1024})", is_random, True),
    ("dockerhub_token", "\"auth\"[ \t]{0,3}:[ \t]{0,3}\"[a-z0-9+/]{12}", r"\"auth\"\s{0,3}:\s{0,3}\"(?P<value>[A-Za-z0-9+/]{12,400}={0,2})\"", _is_basic, True),
    ("authorization_header", "(?:bearer|token)[ \t]{1,3}[a-z0-9._~+/-]{20}", r"(?:bearer|token)[ \t]{1,3}(?P<value>[A-Za-z0-9._~+/-]{20,4000}={0,2})(?![A-Za-z0-9._~+/-])", _is_bearer, True),
    ("authorization_header", "authorization[\"']?[ \t]{0,3}[:=,][ \t]{0,3}[\"']?(?:token|apikey|api-key|key|ssws|bot|genie-?key|splunk)[ =]{1,2}[a-z0-9._~+/:-]{16}",
     r"authorization[\"']?\s{0,3}[:=,]\s{0,3}[\"']?(?:token|apikey|api-key|key|ssws|bot|genie-?key|splunk)[ =]{1,2}(?P<value>[A-Za-z0-9._~+/:-]{16,4000}={0,2})", _is_bearer, True),
    ("authorization_header", "basic[ \t]{1,3}[a-z0-9+/_-]{6}", r"basic\s{1,3}(?P<value>[A-Za-z0-9+/_-]{6,400}={0,2})(?![A-Za-z0-9+/=_-])", _is_basic, True),
    ("password", "_auth[ ]?=[ ]?[a-z0-9+/]{6}", r"_auth ?= ?(?P<value>[A-Za-z0-9+/]{6,400}={0,2})", _is_basic, True),
    ("npm_token", "_authtoken[ ]?=[ ]?[a-z0-9]{6}", rf"_authtoken ?= ?(?P<value>{_UUID}|[A-Za-z0-9+/_-]{{20,80}}={{0,2}})", is_random, True),
    ("password", "sshpass[ ]{1,3}-p[ ]?['\"]?[^\\s'\"]{4}", rf"sshpass\s+-p ?{_ARG}", _is_real, True),
    ("password", "redis-cli[ ][^\\n]*?-a[ ][^\\s]{4}", rf"redis-cli\b[^\n]{{0,80}}?\s-a {_ARG}", _is_real, True),
    ("password", "curl[ ][^\\n]*?(?:-u|--user)[ =]{1,3}['\"]?[^\\s:'\"]+:[^\\s]{4}", rf"curl\b[^\n]{{0,120}}?\s(?:-u|--user)[ =]{{1,3}}['\"]?[^\s:'\"]{{1,60}}:{_ARG}", _is_real, True),
    ("password", "(?:mysql|mysqldump|mysqladmin|mariadb)[ ][^\\n]*?-p['\"]?[^\\s'\"]{4}", rf"(?:mysql\w*|mariadb)\b[^\n]{{0,80}}?\s-p{_ARG}", _is_real, True),
    ("password", "(?:docker|podman|helm registry|az)[ ]login[ ][^\\n]*?-p[ ][^\\s]{4}", rf"login\b[^\n]{{0,100}}?\s-p {_ARG}".replace("login", r"(?:docker|podman|helm registry|az) login", 1), _is_real, True),
    ("password", "(?:ldap[a-z]*|sqlcmd|mongo[a-z]*)[ ][^\\n]*?-[wp][ ]?['\"]?[^\\s'\"]{4}", rf"(?:ldap\w*|sqlcmd|mongo\w*)\b[^\n]{{0,120}}?\s-[wp] ?{_ARG}", _is_real, True),
    ("password", "-pass(?:in|out)?[ ]['\"]?pass:[^\\s'\"]{4}", rf"-pass(?:in|out)? ['\"]?pass:{_ARG}", _is_real, True),
    ("password", "net use[ ][^\\n]*?[ ][^\\s/]+[ ]/user:", r"net use [^\n]{0,80}? (?P<value>[^\s/]{4,60}) /user:", _is_real, True),
    ("password", "[a-z0-9.*-]:(?:[0-9]{4,5}|\\*):[a-z_*][^\\s:]*:[a-z_*][^\\s:]*:[^\\s:]{4}",
     r"[\w.*-]:(?:\d{4,5}|\*):[a-z_*][^\s:]{0,62}:[a-z_*][^\s:]{0,62}:(?P<value>[^\s:]{4,100})(?=\s|$)", _is_real, True),
    ("password", "identified by[ ]{1,3}['\"][^'\"\\s]{4}", r"identified by\s+['\"](?P<value>[^'\"\s]{4,100})['\"]", _is_real, True),
    ("password", "htpasswd[ ]-[a-z]*b[a-z]*[ ][^\\s]", r"htpasswd -\w*b\w* \S+ \S+ (?P<value>\S{4,100})", _is_real, True),
    ("password", ":[^\\s'\"]+['\"]?[ ]?\\|[ ]?(?:sudo )?chpasswd", r"[^\s:'\"]{1,40}:(?P<value>[^\s'\"]{4,60})['\"]? ?\| ?(?:sudo )?chpasswd", _is_real, True),
    ("password", "convertto-securestring[ ][^\\n]*?[\"'][^\\s\"'$]{4}", r"convertto-securestring\s+(?:-\w+\s+){0,3}[\"'](?P<value>[^\s\"'$]{4,100})[\"']", _is_real, True),
)  # fmt: skip


CHECKS: dict[str, Callable[[str], bool]] = {
    "": is_random,
    "crc": is_checked_token,
    "jwt": is_jwt,
    "snowflake": is_snowflake_token,
    "mixed": is_mixed,
}
"""Checks by their name in the table of vendors."""


def is_strong(value: str) -> bool:
    """Return whether the password of a URL or command is no example: `scott:tiger` is one."""
    return re.search(r"\d", value) is not None and len(set(value)) >= 6 and re.search("[A-Za-z]", value) is not None


# -- numbers -------------------------------------------------------------------------------------------------------

_CARD_WORDS = re.compile(
    r"card|visa|master|amex|american express|discover|diners|jcb|unionpay|maestro|\bpan\b|\bcc\b|cvv|cvc|karte|carte|tarjeta"
    r"|cart[aã]o|カード|卡|クレジット|zahlung|payment|\bexp\b",
    re.IGNORECASE,
)
_OTHER_NUMBER = re.compile(
    r"order|invoice|tracking|shipment|serial|ticket|isbn|imei|article|product|sku|part|account|customer|transaction|reference|\bref\b"
    r"|bestell|rechnung|auftrag|kunden|vorgang|sendung|commande|facture|num[eé]ro de s|pedido|factura|注文|订单|訂單|番号|编号|\bid\b|_id\b|timestamp|epoch|offset|size|bytes|seed|phone|tel\b|uid|build",
    re.IGNORECASE,
)
_SSN_WORDS = re.compile(
    r"ssn(?![a-z])|social.?security|soc\.? ?sec|sozialversicherung|sécurité sociale|社会保障", re.IGNORECASE
)
_OTHER_SSN = re.compile(r"part|item|order|serial|invoice|sku|model|catalog|article|phone", re.IGNORECASE)


_ALNUM = re.compile("[0-9A-Za-z]")
_MORE_DIGITS = re.compile(r"[.,-]\d|[ -]\d{4}")
_DIGITS_BEFORE = re.compile(r"\d[ .,-]?$|[$€£.+/_-]$")
_IN_A_ROW = re.compile(r"[,(\[]\s?$")
_TABLE_CHARS = 4_000  # the heading of a table is sought this far above a number
_NUMBER = re.compile(rf"(?:{CARD_DIGITS}|{IBAN}|{SSN})(?![0-9A-Za-z_])")


def find_numbers(text: str, start: int, end: int, *, in_path: bool = False) -> Iterator[Find]:
    """Cards, bank accounts and social security numbers at a candidate. A number alone on its digits is likely only."""
    first = start + (2 if text[start] == "\\" and text[start + 1] in "nrt" else not _ALNUM.match(text, start))
    number = _NUMBER.match(text, first)
    if number is None:
        return
    value, end = number[0], number.end()
    is_account, is_social = value[:1].isalpha(), value[3:4] == "-" == value[6:7]
    if not (is_iban(value) if is_account else is_ssn(value) if is_social else is_card(value)):
        return
    before = text[max(0, first - 60) : first].rpartition("\n")[2]
    column = "" if is_account or in_path else _column(text, first)
    edge = before[-2:] if not in_path else before[-1:].replace("/", "")
    is_part = (not is_account and _MORE_DIGITS.match(text, end)) or _DIGITS_BEFORE.search(edge)
    if is_part and not column:  # commas in a table separate cells
        return
    if is_account:
        yield Find("iban", first, end)
    elif is_social:
        if _SSN_WORDS.search(f"{column}\n{before}") and not _OTHER_SSN.search(before[-12:]):
            yield Find("us_ssn", first, end, likely=True)
    else:
        after = text[end : end + 40].partition("\n")[0]
        about = _CARD_WORDS.search(f"{column}\n{before}\n{after}") is not None
        in_row = not in_path and _IN_A_ROW.search(before) is not None
        if about or not (in_row or _OTHER_NUMBER.search(f"{column}\n{before}")):
            yield Find("payment_card", first, end, likely=not (about or in_path or is_grouped_card(value)))


def _column(text: str, at: int) -> str:
    """Heading of the table column that contains a position, in CSV or Markdown; empty outside a table."""
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


# -- seed phrases, contacts ----------------------------------------------------------------------------------------

SEEK_SEEDS = (
    "(?:seed|mnemonic|recovery|wallet|wiederherstellungs|récupération|助记词|助記詞|シードフレーズ|リカバリーフレーズ)[^\\n]*?"
    "[:=：は是为為「\\n\"'` ][ \\t\\r\\n]{0,4}[\"'`]?(?:[a-z]{3,8}[ ,]{1,2}){11}[a-z]{3}"
)
_SEEDS = re.compile(r"(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8}(?![A-Za-z])")
# None is a word of BIP-39.
_COMMON_TEXT = """
the and for are was with your from has not but its our their which were been should each per via see
than them these those does
"""
_NO_SEEDS = frozenset(_COMMON_TEXT.split())


def find_seeds(text: str, start: int, end: int) -> Iterator[Find]:
    """Recovery phrase of a wallet: 12, 15, 18, 21 or 24 words (BIP-39), none of them common in prose."""
    for match in _SEEDS.finditer(text, start, end + 220):
        words = re.findall(r"[a-z]+", match[0])
        while len(words) > 12 and words[0] in {"phrase", "words", "word", "is", "seed", "mnemonic"}:
            words = words[1:]
        if len(words) in {12, 15, 18, 21, 24} and not _NO_SEEDS & set(words):
            yield Find("seed_phrase", text.index(words[0], match.start()), match.end(), likely=True)
            return


SEEK_CONTACTS = (
    "[A-Za-z0-9._%+-]@(?:[A-Za-z0-9-]+\\.)+[A-Za-z]{2}"
    "|(?:\\A|[^0-9A-Za-z_.+/=-])(?:\\+[0-9]{1,3}[ .(-]|\\([0-9]{3}\\) ?|[0-9]{3}[-.][0-9]{3}[-.]|0[0-9]{1,4}[ ./-])[0-9]"
)
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.){1,6}[A-Za-z]{2,24}(?![A-Za-z0-9])"
)
_PHONE = re.compile(
    r"(?<![0-9A-Za-z_.+/=-])(?:\+\d{1,3}[ .-]?(?:\(0?\d{1,4}\)[ .-]?)?\d{1,4}(?:[ ./-]?\d{2,4}){2,4}|\(\d{3}\) ?\d{3}[-. ]\d{4}|\d{3}[-.]\d{3}[-.]\d{4}|0\d{1,4}[ /-]\d{3,8}(?:[ -]\d{2,4}){0,3}|0\d(?:[ .]\d\d){4})(?![0-9A-Za-z_]|[.-]\d)"
)


def find_contacts(text: str, start: int, end: int) -> Iterator[Find]:
    """E-mail addresses and phone numbers, kinds that are off by default."""
    if text[start + 1] == "@":
        match = next(_EMAIL.finditer(text, max(0, start - 63), end + 24), None)
        if match is not None:
            yield Find("email", *match.span())
        return
    match = _PHONE.search(text, start, end + 40)
    if match is not None and match.start() <= start + 1:
        yield Find("phone", *match.span())
