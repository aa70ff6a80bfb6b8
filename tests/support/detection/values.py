"""Kinds of sensitive values, each with a generator and with the contexts in which the values occur."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias
from urllib.parse import quote

from support.detection.draw import card, fill, generated, grouped, iban, lines64, mnemonic, of, password, uuid
from support.detection.tokens import NAME_NEEDED, OWN_PREFIX, PASSWORD_NAMES

Make: TypeAlias = Callable[[Random], str]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of value. `group` names its contexts, and `key` is its name in a configuration.

    In the result of `make`, the sensitive part, such as the password of a connection string, is between « and ».
    Without these marks, all of it is sensitive.
    """

    name: str
    group: str
    make: Make
    key: str = "value"


def without_marks(value: str) -> str:
    """Return the result of `make` without the marks of its sensitive part."""
    return value.replace("«", "").replace("»", "")


def tokens() -> list[Kind]:
    """Return the kinds of vendor tokens, values that need a name, and passwords with their usual names."""
    found = [
        Kind(name=name, group=group, make=_filled(template), key=key)
        for table, group in ((OWN_PREFIX, "bare"), (NAME_NEEDED, "named"))
        for name, template, key in table
    ]
    found += [Kind(name=f"password-{key}", group="named", make=password, key=key) for key in PASSWORD_NAMES]
    found += [
        Kind(name="discord-bot", group="bare", make=_discord_bot, key="DISCORD_TOKEN"),
        Kind(name="jwt", group="bare", make=_jwt, key="ACCESS_JWT"),
        Kind(name="gitlab-runner-registration", group="bare", make=_filled("GR13" + "48941<w:20>"), key="RUNNER_REG"),
    ]
    return found


def _filled(template: str) -> Make:
    return lambda rng: fill(rng, template)


def _discord_bot(rng: Random) -> str:
    account = base64.b64encode(of(rng, "d", 18).encode()).decode()
    return f"{account}.{fill(rng, '<w:6>.<w:38>')}"


def _jwt(rng: Random) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"RS256","typ":"JWT"}').decode().rstrip("=")
    known = {"sub": uuid(rng), "name": "Anna Berg", "iat": rng.randrange(1_700_000_000, 1_800_000_000)}
    body = base64.urlsafe_b64encode(json.dumps(known, separators=(",", ":")).encode()).decode().rstrip("=")
    return f"{head}.{body}.{of(rng, 'w', 342)}"


def key_files() -> list[Kind]:
    """Return the kinds of private keys, in the formats of key files."""
    pem = {
        "rsa-private-key": ("RSA PRIVATE KEY", 1190, b"\x30\x82\x04\xa4\x02\x01\x00"),
        "pkcs8-private-key": ("PRIVATE KEY", 1216, b"\x30\x82\x04\xbe\x02\x01\x00"),
        "encrypted-private-key": ("ENCRYPTED PRIVATE KEY", 1300, b"\x30\x82\x05\x2e"),
        "ec-private-key": ("EC PRIVATE KEY", 121, b"\x30\x77\x02\x01\x01"),
        "openssh-private-key": ("OPENSSH PRIVATE KEY", 380, b"openssh-key-v1\x00"),
    }
    found = [
        Kind(name=name, group="key file", make=_pem(label, size, start)) for name, (label, size, start) in pem.items()
    ]
    found.append(Kind(name="pgp-private-key", group="key file", make=_pgp))
    return found


def _pem(label: str, size: int, start: bytes) -> Make:
    def make(rng: Random) -> str:
        return f"-----BEGIN {label}-----\n{lines64(rng, size, start=start)}\n-----END {label}-----"

    return make


def _pgp(rng: Random) -> str:
    label = "PGP PRIVATE KEY BLOCK"
    body = lines64(rng, 900, start=b"\x95\x05\x98\x04")
    return f"-----BEGIN {label}-----\n\n{body}\n={of(rng, 'b64', 4)}\n-----END {label}-----"


def _service_account(rng: Random) -> str:
    key = _pem("PRIVATE KEY", 1216, b"\x30\x82\x04\xbe\x02\x01\x00")(rng)
    whole = {
        "type": "service_account",
        "project_id": "acme-prod",
        "private_key_id": of(rng, "hex", 40),
        "private_key": f"«{key}»\n",
        "client_email": "ci@acme-prod.iam.gserviceaccount.com",
    }
    return json.dumps(whole, indent=2, ensure_ascii=False)


CARDS = {
    "visa": (("4",), (16,)),
    "visa-13": (("4",), (13,)),
    "mastercard": (("51", "52", "53", "54", "55"), (16,)),
    "mastercard-2": (("2221", "2400", "2650", "2720"), (16,)),
    "amex": (("34", "37"), (15,)),
    "discover": (("6011", "644", "65"), (16,)),
    "diners": (("300", "305", "36", "38"), (14,)),
    "jcb": (("3528", "3589", "3550"), (16,)),
    "unionpay": (("6221", "6250", "6288"), (16, 19)),
    "maestro": (("6759", "6763", "5018"), (16, 18)),
}
"""Prefixes and lengths by issuer. Source: ISO/IEC 7812 ranges as the issuers publish them."""

IBANS = {
    "DE": "<d:18>",
    "FR": "<d:10><U:11><d:2>",
    "GB": "<A:4><d:14>",
    "ES": "<d:20>",
    "IT": "<A:1><d:10><U:12>",
    "NL": "<A:4><d:10>",
    "BE": "<d:12>",
    "AT": "<d:16>",
    "CH": "<d:5><U:12>",
    "PL": "<d:24>",
    "PT": "<d:21>",
    "SE": "<d:20>",
    "DK": "<d:14>",
    "NO": "<d:11>",
    "IE": "<A:4><d:14>",
    "FI": "<d:14>",
}
"""Account part by country. Source: SWIFT IBAN registry."""


def numbers() -> list[Kind]:
    """Return the kinds of cards, IBANs, social security numbers and seed phrases."""
    found = [Kind(name=f"card-{name}", group="card", make=_card(*rule)) for name, rule in CARDS.items()]
    found += [Kind(name=f"iban-{country}", group="iban", make=_iban(country)) for country in IBANS]
    found.append(Kind(name="us-ssn", group="ssn", make=_ssn))
    found += [Kind(name=f"seed-{words}", group="seed", make=_seed(words)) for words in (12, 24)]
    return found


def _card(prefixes: tuple[str, ...], lengths: tuple[int, ...]) -> Make:
    def make(rng: Random) -> str:
        number = card(rng, rng.choice(prefixes), rng.choice(lengths))
        sizes = {13: (4, 3), 14: (4, 6, 4), 15: (4, 6, 5)}.get(len(number), (4,))
        return rng.choice([number, grouped(number, sizes, " "), grouped(number, sizes, "-")])

    return make


def _iban(country: str) -> Make:
    def make(rng: Random) -> str:
        value = iban(country, fill(rng, IBANS[country]))
        return rng.choice([value, grouped(value, (4,), " ")])

    return make


def _ssn(rng: Random) -> str:
    area = rng.choice([number for number in range(1, 900) if number != 666])
    return f"{area:03}-{rng.randrange(1, 100):02}-{rng.randrange(1, 10_000):04}"


def _seed(words: int) -> Make:
    return lambda rng: mnemonic(rng, words)


URLS = {
    "postgresql": "postgresql://app:{p}@db-1.example.com:5432/app?sslmode=require",
    "mysql": "mysql://app:{p}@db-1.example.com:3306/app",
    "mariadb": "mariadb+pymysql://app:{p}@db-1/app",
    "mongodb": "mongodb+srv://app:{p}@cluster0.ab1cd.mongodb.net/app?retryWrites=true",
    "redis": "rediss://default:{p}@cache-1.example.com:6380/0",
    "redis-no-user": "redis://:{p}@cache-1:6379/2",
    "amqp": "amqps://svc:{p}@mq-1.example.com/prod",
    "clickhouse": "clickhouse://reader:{p}@ch-1.example.com:9440/logs?secure=true",
    "neo4j": "neo4j+s://neo4j:{p}@graph-1.example.com:7687",
    "elasticsearch": "https://elastic:{p}@es-1.example.com:9243",
    "snowflake": "snowflake://loader:{p}@acme-eu1/db/public?warehouse=wh",
    "cockroachdb": "cockroachdb://app:{p}@crdb-1:26257/bank?sslmode=verify-full",
    "smtp": "smtp://mailer:{p}@mail.example.com:587",
    "ftp": "ftp://upload:{p}@files.example.com/in",
    "http-basic": "https://bob:{p}@wiki.example.com/export",
    "git-remote": "https://oauth2:{p}@git.example.com/team/app.git",
    "pip-index": "https://ci:{p}@pypi.example.com/simple",
}
KEY_VALUE = {
    "sqlserver": "Server=tcp:db-1.example.com,1433;Database=app;User Id=sa;Password={p};Encrypt=true",
    "odbc": "Driver=ODBC Driver 18 for SQL Server;Server=db-1;UID=app;PWD={p};",
    "libpq": "host=db-1 port=5432 dbname=app user=app password={p} sslmode=require",
    "jdbc-postgresql": "jdbc:postgresql://db-1:5432/app?user=app&password={p}",
    "jdbc-sqlserver": "jdbc:sqlserver://db-1:1433;databaseName=app;user=sa;password={p};encrypt=true",
    "jdbc-oracle": "jdbc:oracle:thin:app/{p}@db-1:1521/ORCL",
    "dotnet-mysql": "Server=db-1;Port=3306;Database=app;Uid=app;Pwd={p};",
    "azure-storage": "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={k};EndpointSuffix=core.windows.net",
    "azure-servicebus": "Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={k}",
    "azure-cosmos": "AccountEndpoint=https://acme.documents.azure.com:443/;AccountKey={k};",
}


def connections() -> list[Kind]:
    """Return the kinds of connection strings. The sensitive part is the password or key in the string."""
    return [
        Kind(name=f"connection-{name}", group="connection", make=_connection(form))
        for table in (URLS, KEY_VALUE)
        for name, form in table.items()
    ]


def _connection(form: str) -> Make:
    def make(rng: Random) -> str:
        plain = generated(rng, rng.randrange(10, 22), "-_!")
        key = fill(rng, "<b64:86>==" if "servicebus" not in form else "<b64:43>=")
        plain = quote(plain, safe="!") if "://" in form else plain
        return form.format(p=f"«{plain}»", k=f"«{key}»")

    return make


def obfuscated() -> list[Kind]:
    """Return the kinds of values that are written in a form that hides them."""
    forms: dict[str, Callable[[Random, str], str]] = {
        "zero-width": lambda rng, value: _inserted(rng, value, "\u200b\u200c\u2060\ufeff"),
        "soft-hyphen": lambda rng, value: _inserted(rng, value, "\u00ad"),
        "full-width": lambda _rng, value: "".join(chr(ord(char) + 0xFEE0) for char in value),
        "line-wrap": _wrapped,
        "url-encoded": _percent,
        "base64": lambda _rng, value: base64.b64encode(value.encode()).decode(),
    }
    return [
        Kind(name=f"obfuscated-{name}", group="obfuscated", make=_hidden(form, urls=name in ("base64", "url-encoded")))
        for name, form in forms.items()
    ]


def _hidden(form: Callable[[Random, str], str], *, urls: bool) -> Make:
    plain = [template for name, template, _ in OWN_PREFIX if name in _HIDDEN]

    def make(rng: Random) -> str:
        if urls and rng.random() < 0.4:
            return form(rng, without_marks(_connection(URLS["postgresql"])(rng)))
        return form(rng, fill(rng, rng.choice(plain)))

    return make


_HIDDEN = {
    "github-classic",
    "gitlab-pat",
    "aws-key-id",
    "stripe-secret",
    "npm",
    "sendgrid",
    "digitalocean",
    "slack-bot",
}


def _inserted(rng: Random, value: str, hidden: str) -> str:
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(3, len(value) - 3)
        value = value[:at] + rng.choice(hidden) + value[at:]
    return value


def _percent(rng: Random, value: str) -> str:
    """Percent-encode all characters, or only special characters and up to five others, like encoders and people do."""
    style = rng.randrange(3)
    some = set(rng.sample(range(len(value)), 5))
    return "".join(
        f"%{ord(char):02X}" if style == 0 or not char.isalnum() or (style == 1 and at in some) else char
        for at, char in enumerate(value)
    )


def _wrapped(rng: Random, value: str) -> str:
    at = rng.randrange(len(value) // 3, 2 * len(value) // 3)
    return value[:at] + "\n" + value[at:]


HEADERS = {
    "authorization-basic": "GET / HTTP/1.1\nHost: a.example.com\nAuthorization: Basic «<basic>»\n",
    "authorization-bearer": "GET /v1/me HTTP/1.1\nHost: api.example.com\nAuthorization: Bearer «<a:40>»\n",
    "docker-config-auth": '{"auths": {"registry.example.com": {"auth": "«<basic>»"}}}',
    "kubeconfig-token": "users:\n- name: admin\n  user:\n    token: «<w:64>»\n",
    "kubernetes-secret": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  password: «<password64>»\n",
    "x-api-key": 'curl https://api.example.com/v2/items -H "X-Api-Key: «<a:40>»"\n',
    "azure-sas": "https://acme.blob.core.windows.net/in/a.csv?sv=2024-11-04&se=2027-01-01&sr=b&sp=r&sig=«<signature>»\n",
}
"""Credentials in HTTP headers and in encoded configuration."""


def headers() -> list[Kind]:
    """Return the kinds that are whole texts."""
    found = [Kind(name=name, group="lines", make=_filled(template)) for name, template in HEADERS.items()]
    return [*found, Kind(name="gcp-service-account", group="lines", make=_service_account)]


def kinds() -> list[Kind]:
    """Return all kinds except the phrases, which are complete texts (see `cases`)."""
    return [*tokens(), *key_files(), *numbers(), *connections(), *obfuscated(), *headers()]
