# ruff: noqa: E501 - a line of a document is one template
"""Generated documents that look sensitive and are not: lock files, hashes, templates, ids and prose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeAlias

from support.detection.benign_code import CODE
from support.detection.benign_prose import PROSE
from support.detection.cases import half_of
from support.detection.draw import fill

Make: TypeAlias = Callable[[Random], str]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A benign document. `name` tells where the document comes from."""

    kind: str
    name: str
    half: str
    text: str


def documents(seed: int = 1, *, per_kind: int = 20) -> Iterator[Document]:
    """Yield generated documents of each kind."""
    for kind, make in MAKERS.items():
        for number in range(per_kind):
            name = f"{kind} {number}"
            yield Document(kind=kind, name=name, half=half_of(name), text=make(Random(f"{seed} {name}")))


def _rows(start: str, count: int, rows: tuple[str, ...], end: str, rng: Random) -> str:
    return fill(rng, start) + "".join(fill(rng, rng.choice(rows)) for _ in range(count)) + fill(rng, end)


_LOG = "2026-03-11T10:<d:2>:<d:2>.<d:6>Z INFO [w-<d:1>] {}\n"
_COMMIT = (
    "commit <hex:40>\nAuthor: Anna Berg <anna@example.org>\nDate:   Wed Mar 11 10:03:17 2026 +0100\n\n    {} <word>\n\n"
)
_MESSAGE = '#: src/<word>.c:<n:999>\nmsgid "{}"\nmsgstr "{}"\n\n'
_NUMBERS = "+49 30 <d:7>,978-<d:1>-<d:4>-<d:4>-<d:1>,<n:90>.<d:6>,-<n:180>.<d:6>,<n:9999>.<d:2>,"
ROWS: dict[str, tuple[str, int, tuple[str, ...], str]] = {
    "package-lock.json": (
        '{\n "name": "app",\n "lockfileVersion": 3,\n "packages": {\n', 16, (
            ('  "node_modules/<name>": {\n   "version": "<n:9>.<n:20>.<n:30>",\n   "resolved": "https://registry.npmjs.org/<name>/-/x-<n:9>.tgz",\n'
            '   "integrity": "sha512-<bytes:64>",\n   "dependencies": {"<name>": "^<n:9>.<n:20>.<n:30>"}\n  },\n'),
        ), '  "node_modules/minipass": {}\n }\n}\n',
    ),
    "go.sum": ("", 29, ("github.com/acme/<name> v<n:9>.<n:20>.<n:30> h1:<bytes:32>\n",), ""),
    "RECORD": ("", 34, ("<name>/<word>.py,sha256=<w:43>,<n:90000>\n",), ""),
    "checksums": ("", 24, tuple(f"<hex:{size}>  <name>-<n:9>.<n:20>.tar.gz\n" for size in (32, 40, 64, 128)), ""),
    "data uri, css": (
        ".logo { background: url(data:image/png;base64,iVBORw0KGgo<bytes:9000>) no-repeat; }\n", 1, tuple(
            f"@font-face {{ font-family: A; src: url('data:font/woff2;base64,d09GMgAB<bytes:{size}>') format('woff2'); }}\n"
            for size in (20_000, 27_000, 33_000, 40_000)
        ), "",
    ),
    "data uri, svg": (
        '<svg xmlns="http://www.w3.org/2000/svg"><path d="M', 300, ("<n:999>.<d:3>,<n:999>.<d:3> ",),
        'z"/><image href="data:image/jpeg;base64,<bytes:30000>"/></svg>',
    ),
    "access log": ("", 40, tuple(
        f'10.<n:255>.<n:255>.<n:255> - - [11/Mar/2026:10:<d:2>:<d:2> +0000] "{method} /<word>/<uuid>?page=<d:1> HTTP/1.1" 200 <n:90000> "-" "Mozilla/5.0 (X11; Linux x86_64)"\n'
        for method in ("GET", "POST")
    ), ""),
    "application log": ("", 40, tuple(map(_LOG.format, (
        "password check for user <word> failed (attempt 2)",
        "token refreshed for session <uuid>",
        "secret rotation finished in <n:9999> ms, key id <hex:16>",
        "login ok user=<word> method=password mfa=true",
        "request_id=<hex:16> span=<hex:16> took <n:9999> ms",
        "authorization: none, token: missing, retry in <n:9999> ms",
        "api_key=*** host=db-1 password=******** pool=<n:9999>",
        "cache key user:<n:9999>:profile:<hex:16> evicted",
    ))), ""),
    "git log": ("", 12, tuple(map(_COMMIT.format, (
        "Fix password reset of", "Rename token in", "Rotate secret of", "Drop api key from"
    ))), ""),
    "arns": ("resources:\n", 10, tuple(
        f"  - {lead}arn:aws:{name}\n" for lead in ("", "secret: ") for name in (
            "iam::<d:12>:role/<word>-<word>",
            "secretsmanager:eu-west-1:<d:12>:secret:<word>/db-password-<a:6>",
            "kms:eu-west-1:<d:12>:key/<uuid>",
            "ssm:eu-west-1:<d:12>:parameter/<word>/api_key",
            "acm:eu-west-1:<d:12>:certificate/<uuid>",
        )
    ), ""),
    "part numbers": ("part,description,stock\n", 20, ("<d:3>-<d:2>-<d:4>,<word>,<n:99>\n",), ""),
    "order numbers": ("", 15, (
        "Order no. <luhn:13> shipped\n", "order_id: <luhn:14>\n", "Tracking number <luhn:16>\n", "invoice <luhn:16>, paid\n",
    ), ""),
    "ids": ("", 25, tuple(
        f"- {name}: {form}\n"
        for name in ("order", "build", "trace", "customer", "node", "thread", "job", "image")
        for form in ("<uuid>", "<hex:24>", "<b32:26>", "<a:22>", "1<d:18>", "<hex:32>")
    ), ""),
    "public keys": ("", 1, (
        ("-----BEGIN CERTIFICATE-----\n<lines:900>\n-----END CERTIFICATE-----\n"
        "-----BEGIN PUBLIC KEY-----\n<lines:290>\n-----END PUBLIC KEY-----\n"
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5<bytes:36> anna@laptop\nssh-rsa AAAAB3NzaC1yc2E<bytes:380> ci\n"
        "SHA256:<b64:43> anna@laptop (ED25519)\n"),
    ), ""),
    "numbers": ("phone,isbn,lat,lon,amount,reference\n", 20, (
        *[f"{_NUMBERS}<d:11>\n"] * 9, f"{_NUMBERS}1<d:3> <d:4> <d:4> <d:4>\n"
    ), ""),
    "password policy": (
        "| system | password rotation |\n|---|---|\n| wiki | 2026-Q3 |\n\nsystem,password,max_age_days\n", 12, tuple(
            f"<word>,{state},<n:90>\n"
            for state in ("required", "optional", "yes", "no", "expired", "in vault", "rotated 2026-Q3", "n/a")
        ), "",
    ),
    "references": (
        ("secret_version: <d:1>\npassword_file: /run/secrets/<word>_password\nkey_path: /etc/<word>/key.pem\n"
        "token_ttl: <n:3600>\npassword_min_length: 12\nsecretName: <word>-tls\napi_key_header: X-Api-Key\n"
        "auth_token_expires: 2026-12-01T00:00:00Z\npassword rotation: 2026-Q3\ntoken_type: bearer\n"
        "encryption_key_id: <hex:12>\npasswordPolicy: strict\nkey: <word>\n"), 0, (), "",
    ),
    "json schema": (
        '{"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {', 9, tuple(
            f'"{name}": {{"type": "string", "minLength": <n:12>, "writeOnly": true}}, '
            for name in ("password", "token", "secret", "apiKey", "clientSecret", "<word>")
        ), '"name": {}}}',
    ),
    "catalogue": ("", 8, tuple(_MESSAGE.format(*pair) for pair in (
        ("Password:", "Passwort:"),
        ("Enter password", "Saisissez le mot de passe"),
        ("Wrong password", "Contraseña incorrecta"),
        ("Password for %s", "%s のパスワード"),
        ("The passwords do not match", "两次输入的密码不一致"),
        ("Secret key available", "Geheimer Schlüssel ist vorhanden"),
    )), ""),
    "minified": ("", 80, (
        "function <L:2>(<L:1>){return <L:1>.password?<L:1>.token:<L:2>(<L:1>.key)}",
        'var <L:2>={password:<L:1>,token:!0,secret:null,key:"<L:2>"};',
        '<L:2>.apiKey=<L:1>.apiKey||"",<L:2>.password=void 0;',
        "const <L:2>=(<L:1>)=><L:1>.accessToken??<L:1>.token;",
    ), ""),
}  # fmt: skip
"""Kinds of documents made of rows: the start, the number of rows, the rows to choose from, and the end."""

MAKERS: dict[str, Make] = {**{kind: partial(_rows, *row) for kind, row in ROWS.items()}, **CODE, **PROSE}
"""Generators by kind of document."""
