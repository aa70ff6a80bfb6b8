"""Rule tables for values recognised by their context, and for numbers with a checksum."""

# ruff: noqa: E501 - a row of a table is a line

from __future__ import annotations

import re

from retentive.redaction.checks import decode_base64, is_card, is_iban, is_random, is_scrambled, is_ssn
from retentive.redaction.rules import Rule
from retentive.redaction.tokens import AFTER, BEFORE, BEFORE_LAST, GATE, UUID
from retentive.redaction.words import is_placeholder

# Parts of a key's name that show its value is secret.
_KEYISH = r"(?:key|token|secret|pat|auth|license|licence|password|pass|schl\u00fcssel|cl\u00e9|jeton|geheimnis|credential|\u30ad\u30fc|\u30c8\u30fc\u30af\u30f3|\u5bc6\u94a5|\u4ee4\u724c|app)"
_HEX32, _HEX40, _URL_END = r"[0-9a-f]{32}", r"[0-9a-f]{40}", r"[^\s\"'`<>()\[\]{}\\|,\u3001\u3002]"

# kind, vendor names in lower case, pattern of the value: `DD_API_KEY=...`, "the API key of Datadog is ..."
_NEAR: list[tuple[str, str, str]] = [
    ("datadog_key", "datadog dd_api_key dd_app_key dd_application_key dd-api-key dd-application-key", rf"(?:{_HEX40}|{_HEX32})"),
    ("cloudflare_token", "cloudflare cf_api", r"(?:[0-9a-f]{37}|[A-Za-z0-9_-]{40})"),
    ("heroku_key", "heroku", UUID),
    ("vercel_token", "vercel", r"[A-Za-z0-9]{24}"),
    ("netlify_token", "netlify", r"[A-Za-z0-9_-]{40,64}"),
    ("azure_devops_token", "azure devops ado_ vsts", r"[a-z0-9]{52}"),
    ("vault_token", "vault", r"s\.[A-Za-z0-9]{24}"),
    ("alibaba_access_key", "alibaba aliyun alicloud access_key_secret accesskeysecret", r"[A-Za-z0-9]{30}"),
    ("twilio_key", "twilio", _HEX32),
    ("postmark_token", "postmark", UUID),
    ("paypal_secret", "paypal", r"E[A-Za-z0-9_-]{79}"),
    ("cohere_key", "cohere co_api_key", r"[A-Za-z0-9]{40}"),
    ("mistral_key", "mistral", r"[A-Za-z0-9]{32}"),
    ("deepseek_key", "deepseek", r"sk-[a-f0-9]{32}"),
    ("okta_token", "okta", r"00[A-Za-z0-9_-]{40}"),
    ("okta_token", "ssws", r"00[A-Za-z0-9_-]{40}"),
    ("auth0_secret", "auth0", r"[A-Za-z0-9_-]{64}"),
    ("airtable_token", "airtable", r"key[A-Za-z0-9]{14}"),
    ("snowflake_token", "snowflake", r"(?:[A-Za-z0-9_-]+\.){0,2}[A-Za-z0-9_-]{40,}"),
    ("npm_token", "_authtoken npm_token", UUID),
    ("square_token", "square", r"EAAA[A-Za-z0-9_-]{60}"),
    ("aws_secret_key", "aws secret_access_key secretaccesskey", r"[A-Za-z0-9/+]{40}"),
    ("aws_session_token", "aws_session_token sessiontoken", r"[A-Za-z0-9/+]{100,}={0,2}"),
    ("azure_storage_key", "azure accountkey account_key storage_key", r"[A-Za-z0-9+/]{86}=="),
    ("us_ssn", "ssn social", r"\d{3}[ -]?\d{2}[ -]?\d{4}"),
]  # fmt: skip
_KEYLESS = ("us_ssn", "okta_token", "npm_token")  # the name alone is enough


_SIGN = (
    r"[\"'`*)\]]{0,3}(?:\s{0,3}(?:[:=>|,]{1,2}|\uff1a|\u306f|\u662f|\u4e3a)|(?:[,;]\s{0,20}|\s{1,20})[\"']?value[\"']?\s?[:=]|\s(?:is|ist|est|lautet|to|ssws|bearer)\b|(?=\s|[\"'(]))"
    r"[\s\"'`*(|\u00ab\u300c\u201e\u201c]{0,5}"
)


def _near(kind: str, names: str, value: str) -> Rule:
    """Rule for a generic value after a vendor name, a word for a key, and a sign such as `=` or `is`."""
    words = tuple(names.split())
    plain = [word for word in words if kind not in _KEYLESS and not re.search("key|token|secret", word)]
    full = [word for word in words if word not in plain]
    gap = r"[^\n\"'`,;{}<>=]{0,24}?"
    named = [rf"(?:{'|'.join(plain)}){gap}{_KEYISH}{gap}"] * bool(plain) + [rf"(?:{'|'.join(full)}){gap}"] * bool(full)
    check = is_ssn if kind == "us_ssn" else is_mixed
    pattern = rf"(?:{'|'.join(named)}){_SIGN}(?<![A-Za-z0-9+/])(?P<value>{value})(?![A-Za-z0-9+/=_])"
    return Rule(kind, pattern, check, starts=words, ignore_case=True)


def is_mixed(value: str) -> bool:
    """Return whether letters and digits are mixed at random, unlike in a path or a name."""
    return is_random(value) and re.search(r"\d", value) is not None and is_scrambled(value)


def _is_basic(value: str) -> bool:
    try:
        user, colon, password = decode_base64(value).decode().partition(":")
    except ValueError:
        return False
    return bool(colon) and bool(user + password) and (user + password).isprintable() and not is_placeholder(password)


def _is_url_password(value: str) -> bool:
    return len(value) >= 3 and not is_placeholder(value)


def _is_pem(value: str) -> bool:
    body = re.sub(r"-----[^-\n]*-----", "", value)
    return sum(map(len, re.findall(r"[A-Za-z0-9+/]{16,}", body))) >= 40 and "..." not in body and is_random(body[-60:])


def _is_wrapped_pem(value: str) -> bool:
    """Return whether the value is a base64-encoded PEM private key, as in kubeconfig and Kubernetes secrets."""
    try:
        return b"PRIVATE KEY" in decode_base64(value[:80])
    except ValueError:
        return False


# Common English words that are not in the BIP-39 word list: text that has one is prose, not a seed phrase.
_NO_SEEDS_TEXT = """
the and for are was with you your from have has not but can will its our any their they which when were been
must should also each use per via see into than then them these those such where does
"""
_NO_SEEDS = frozenset(_NO_SEEDS_TEXT.split())
_SEED_LENGTHS = (12, 15, 18, 21, 24)


def _is_seed_phrase(value: str) -> bool:
    """Return whether the words can be a BIP-39 seed phrase: a valid count, and no common word outside the list."""
    words = re.findall(r"[a-z]+", value)
    return value == value.lower() and len(words) in _SEED_LENGTHS and not _NO_SEEDS & set(words)


def _is_bearer(value: str) -> bool:
    """Return whether a header token can be real: mixed characters, not a placeholder, not joined words."""
    if is_placeholder(value) or not is_random(value) or not re.search(r"\d", value):
        return False
    return re.search(r"[A-Za-z]", value) is not None and max(map(len, re.split(r"[-_./]", value))) >= 8


_PEM = r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_PEM_BODY = r"[A-Za-z0-9+/=\\\s:,.;>|*()\"'_@<-]"
_CONNECTION = (
    "server=|data source=|host=|hostname=|driver=|dsn=|jdbc:|user id=|uid=|username=|initial catalog=|dbname=|addr="
)
_FIRST = r"(?:\$?\{[\w.]{1,40}\}|[^\s:/@\"'`<>{}$\[\]])"

FORMS: list[Rule] = [
    *(_near(*row) for row in _NEAR),
    Rule("gcp_service_account_key",
         rf"\"?private_key\"?['\"]?\s*:\s*['\"](?P<value>{_PEM}[^\"']{{40,8000}}?-----END [A-Z ]+-----(?:\\n|\n)?)", _is_pem,
         starts=("private_key",)),
    Rule("private_key", rf"{_PEM}(?:{_PEM_BODY}{{40,20000}}?-----END [A-Z0-9 ]{{1,40}}-----|[A-Za-z0-9+/=\\\s]{{40,20000}})",
         _is_pem, starts=("-----BEGIN ",)),
    Rule("private_key", r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{40,12000}={0,2}", _is_wrapped_pem, starts=("LS0tLS1CRUdJTi",)),
    Rule("private_key", r"\"d\"\s{0,3}:\s{0,3}\"(?P<value>[A-Za-z0-9_-]{40,700})\"", is_mixed, starts=('"d"',)),
    Rule("private_key", r"Private-Lines: ?\d+\s+(?P<value>(?:[A-Za-z0-9+/=]{4,80}\s+){1,100}Private-MAC: ?[0-9a-f]{40,64})",
         starts=("Private-Lines",)),
    Rule("url_password", rf"://(?P<user>{_FIRST}{{0,100}}):(?!(?P=user)@)(?P<value>[^\s/@\"'`<>]{{3,200}}(?:@[^\s/@\"'`<>:]{{1,60}})?)@(?=[\[A-Za-z0-9_$\{{-])",
         _is_url_password, starts=("://",), then=r"[^\s/@\"'<>]*:"),
    Rule("connection_string",
         rf"(?:{_CONNECTION})(?:[^\n\"'`,()]{{0,300}}?[;?& ])(?:password|pwd)\s{{0,3}}=\s{{0,3}}(?P<value>\{{[^}}\n]{{3,100}}\}}|[^\s;\"'`&<>{{}}]{{3,200}})(?=\s|[;\"'`&<>]|$)",
         _is_url_password, starts=tuple(_CONNECTION.split("|")), ignore_case=True),
    Rule("azure_storage_key", r"AccountKey=(?P<value>[A-Za-z0-9+/]{86}==)", is_random, starts=("AccountKey",)),
    Rule("azure_storage_key", rf"{BEFORE}[A-Za-z0-9+/]{{74,80}}(?:APIM|ACDb|AzFu|AzSe|AzCa|AIoT|ASrB|AEHn|\+ASt|\+ABa|\+AMC|AAZD|JQQJ99)[A-Za-z0-9+/]{{4,12}}={{0,2}}(?![A-Za-z0-9+/=])",
         is_random, holds=("APIM", "ACDb", "AzFu", "AzSe", "AzCa", "AIoT", "ASrB", "AEHn", "+ASt", "+ABa", "+AMC", "JQQJ99")),
    Rule("azure_connection_key", r"SharedAccessKey=(?P<value>[A-Za-z0-9+/]{42,44}={0,2})", is_random, starts=("SharedAccessKey=",)),
    Rule("azure_sas", r"[?&;\"'](?:amp;)?sig=(?P<value>[A-Za-z0-9%+/_-]{40,120}={0,2})", is_random, holds=("sig=",)),
    Rule("iban", r"iban[^\n]{0,20}?[ :=\uff1a\u306f\u662f\"'](?P<value>[a-z]{2}\d{2}(?:[ \u00a0-]?[a-z0-9]{4}){2,7}(?:[ \u00a0-]?[a-z0-9]{1,3})?)(?![a-z0-9])", is_iban,
         starts=("iban",), ignore_case=True),
    Rule("secret", r"x-(?:amz|goog)-signature=(?P<value>[0-9a-f]{64,1024})", is_random, starts=("x-amz-signature=", "x-goog-signature="), ignore_case=True),
    Rule("fly_token", r"FlyV1 (?=fm\d)[A-Za-z0-9+/_=,-]{60,4000}", is_random, starts=("FlyV1 ",)),
    Rule("vault_token", rf"{BEFORE}s\.[A-Za-z0-9]{{24}}{AFTER}", is_mixed, starts=("s.",), then="[A-Za-z0-9]{12}"),
    Rule("dockerhub_token", r"\"auth\"\s{0,3}:\s{0,3}\"(?P<value>[A-Za-z0-9+/]{12,400}={0,2})\"", _is_basic, starts=('"auth"',)),
    Rule("secret", r"(?:client|api|session|connection|authenticate|init)\([^()\n]{0,120}?[\"'](?P<value>[A-Za-z0-9_-]{32,120})[\"']", is_mixed,
         starts=("client(", "api(", "session(", "connection(", "authenticate(", "init("), then=r"[^()\n]*[\"'][A-Za-z0-9_-]{30}", ignore_case=True),
    Rule("slack_webhook", r"https://hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[A-Za-z0-9_/-]{24,120}", is_random,
         starts=("https://hooks.slack",)),
    Rule("discord_webhook", r"https://(?:ptb\.|canary\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{15,20}/[A-Za-z0-9_-]{60,90}",
         is_random, holds=("/webhooks/",)),
    Rule("teams_webhook", r"https://(?:[a-z0-9-]+\.webhook|outlook)\.office(?:365)?\.com/webhook(?:b2)?/[A-Za-z0-9@/_-]{60,300}", is_random,
         holds=("/webhook",)),
    Rule("teams_webhook", rf"https://[a-z0-9.-]{{5,100}}(?:\.logic\.azure\.com|\.powerplatform\.com)(?::\d+)?/{_URL_END}{{20,400}}sig=[A-Za-z0-9%_-]{{40,60}}",
         is_random, holds=(".logic.azure.com", ".powerplatform.com")),
    Rule("authorization_header", r"(?:bearer|token)(?:[\"']?\s*:\s*[\"']?|\s{1,3})(?P<value>[A-Za-z0-9._~+/-]{20,4000}={0,2})(?![A-Za-z0-9._~+/-])",
         _is_bearer, starts=("bearer ",), then=r"\s{0,2}[A-Za-z0-9._~+/-]{16}", ignore_case=True),
    Rule("authorization_header", r"authorization[\"']?\s{0,3}[:=,]\s{0,3}[\"']?(?:token|apikey|api-key|key|ssws|bot|genie-?key|splunk)[ =]{1,2}(?P<value>[A-Za-z0-9._~+/:-]{16,4000}={0,2})",
         _is_bearer, starts=("authorization",), ignore_case=True),
    Rule("authorization_header", r"basic\s{1,3}(?P<value>[A-Za-z0-9+/_-]{6,400}={0,2})(?![A-Za-z0-9+/=_-])", _is_basic,
         starts=("basic ",), then=r"\s{0,2}[A-Za-z0-9+/_-]{6}", ignore_case=True),
    Rule("password", r"(?:sshpass\s{1,3}-p|redis-cli\b[^\n]{0,80}?\s-a|curl\b[^\n]{0,120}?\s(?:-u|--user))[ =]{0,3}['\"]?(?:(?<=[ru'\"= ])[^\s:'\"]{1,60}:)?(?P<value>[^\s'\"]{4,100})",
         _is_url_password, starts=("sshpass ", "redis-cli ", "curl ")),
    Rule("payment_card", rf"[2-6]{BEFORE_LAST}(?<![_.$\u20ac/+].)(?<!\d-.)\d{{3}}(?:[ -]?\d){{8,15}}(?![0-9A-Za-z_/]|[.,-]\d{{3,}}|-[0-9a-f])", is_card,
         gate=GATE + r"[2-6]\d{3}(?:[ -]?\d){8}"),
    Rule("iban", rf"[A-Z]{BEFORE_LAST}[A-Z]\d{{2}}(?:[ \u00a0-]?[A-Z0-9]{{4}}){{2,7}}(?:[ \u00a0-]?[A-Z0-9]{{1,3}})?{AFTER}", is_iban,
         gate=GATE + r"[A-Z]{2}\d{2}(?:[ -]|\x{a0})?[A-Z0-9]{4}(?:[ -]|\x{a0})?[A-Z0-9]{2}"),
    Rule("us_ssn", rf"\d{BEFORE_LAST}(?<![_.-].)\d{{2}}-\d{{2}}-\d{{4}}(?![0-9A-Za-z_]|[.-]\d)", is_ssn, gate=GATE + r"\d{3}-\d{2}-\d{4}"),
    Rule("email", r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.){1,6}[A-Za-z]{2,24}(?![A-Za-z0-9])",
         holds=("@",)),
    Rule("phone", r"(?<![0-9A-Za-z_.+/=-])(?:\+\d{1,3}[ .-]?(?:\(0?\d{1,4}\)[ .-]?)?\d{1,4}(?:[ ./-]?\d{2,4}){2,4}|\(\d{3}\) ?\d{3}[-. ]\d{4}|\d{3}[-.]\d{3}[-.]\d{4}|0\d{1,4}[ /-]\d{3,8}(?:[ -]\d{2,4}){0,3}|0\d(?:[ .]\d\d){4})(?![0-9A-Za-z_]|[.-]\d)",
         gate=r"\+\d{1,3}[ .\d(-]|\(\d{3}\)|\d{3}[-.]\d{3}[-.]|0\d{1,4}[ ./-]\d"),
    Rule("seed_phrase", r"(?:seed|mnemonic|recovery|wiederherstellungs|récupération|助记词|助記詞|シードフレーズ|リカバリーフレーズ)(?:[ _-](?:phrase|words?))?[^\n]{0,40}?[:=\uff1a\u306f\u662f\u70ba\u300c\n\"'` ]\s{0,3}[\"'`]?(?P<value>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})(?![A-Za-z])",
         _is_seed_phrase, starts=("seed", "mnemonic", "recovery", "wiederherstellungs", "récupération", "助记词", "助記詞", "シードフレーズ", "リカバリーフレーズ"), ignore_case=True),
]  # fmt: skip
