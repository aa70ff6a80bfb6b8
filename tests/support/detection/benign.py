# ruff: noqa: E501 - a line of a document is one template
"""Generated documents that look sensitive and are not: lock files, hashes, templates, ids and prose."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from support.detection.benign_code import CODE
from support.detection.benign_prose import PROSE
from support.detection.cases import half_of
from support.detection.draw import bytes64, card, fill, grouped, lines64, of, uuid, word

Make: TypeAlias = Callable[[Random], str]
LIST_NAMES = ("minipass", "passport", "keyv", "tokenize", "secretlint", "pass-stream", "api-key-less", "passwd-user")


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


def _packages(rng: Random, count: int) -> list[tuple[str, str]]:
    names = [f"{word(rng)}-{word(rng)}" for _ in range(count)] + rng.sample(LIST_NAMES, 4)
    return [(name, f"{rng.randrange(9)}.{rng.randrange(20)}.{rng.randrange(30)}") for name in names]


def package_lock(rng: Random) -> str:
    """Lock file of npm."""
    found: dict[str, object] = {}
    for name, version in _packages(rng, 12):
        found[f"node_modules/{name}"] = {
            "version": version,
            "resolved": f"https://registry.npmjs.org/{name}/-/{name}-{version}.tgz",
            "integrity": f"sha512-{bytes64(rng, 64)}",
            "dependencies": {other: f"^{number}" for other, number in _packages(rng, 1)},
        }
    return json.dumps({"name": "app", "lockfileVersion": 3, "packages": found}, indent=2)


def go_sum(rng: Random) -> str:
    """Checksums of Go modules."""
    return "".join(f"github.com/acme/{name} v{number} h1:{bytes64(rng, 32)}\n" for name, number in _packages(rng, 25))


def record(rng: Random) -> str:
    """RECORD of a wheel."""
    return "".join(
        f"{name.replace('-', '_')}/{word(rng)}.py,sha256={fill(rng, '<w:43>')},{rng.randrange(90_000)}\n"
        for name, _ in _packages(rng, 30)
    )


def checksums(rng: Random) -> str:
    """Output of checksum tools."""
    size = rng.choice((32, 40, 64, 128))
    return "".join(f"{of(rng, 'hex', size)}  {name}-{version}.tar.gz\n" for name, version in _packages(rng, 20))


def data_uri_css(rng: Random) -> str:
    """Style sheet that contains an image and a font of 75 KB."""
    image, font = bytes64(rng, rng.randrange(2_000, 30_000)), bytes64(rng, rng.randrange(20_000, 40_000))
    return (
        f".logo {{ background: url(data:image/png;base64,iVBORw0KGgo{image}) no-repeat; }}\n"
        f"@font-face {{ font-family: A; src: url('data:font/woff2;base64,d09GMgAB{font}') format('woff2'); }}\n"
    )


def data_uri_svg(rng: Random) -> str:
    """Drawing with an embedded picture and many coordinates."""
    line = " ".join(f"{rng.uniform(0, 999):.3f},{rng.uniform(0, 999):.3f}" for _ in range(300))
    image = bytes64(rng, rng.randrange(8_000, 56_000))
    return f'<svg xmlns="http://www.w3.org/2000/svg"><path d="M{line}z"/><image href="data:image/jpeg;base64,{image}"/></svg>'


def access_log(rng: Random) -> str:
    """Log of a web server."""
    return "".join(
        f"10.{rng.randrange(255)}.{rng.randrange(255)}.{rng.randrange(255)} - - [11/Mar/2026:10:{rng.randrange(60):02}:"
        f'{rng.randrange(60):02} +0000] "{rng.choice(("GET", "POST"))} /{word(rng)}/{uuid(rng)}?page={rng.randrange(9)} '
        f'HTTP/1.1" {rng.choice((200, 302, 404))} {rng.randrange(90_000)} "-" "Mozilla/5.0 (X11; Linux x86_64)"\n'
        for _ in range(40)
    )


def application_log(rng: Random) -> str:
    """Log of a service that mentions passwords and tokens but contains none."""
    said = (
        "password check for user {w} failed (attempt 2)",
        "token refreshed for session {u}",
        "secret rotation finished in {n} ms, key id {h}",
        "login ok user={w} method=password mfa=true",
        "request_id={h} span={h} took {n} ms",
        "authorization: none, token: missing, retry in {n} ms",
        "api_key=*** host=db-1 password=******** pool={n}",
        "cache key user:{n}:profile:{h} evicted",
    )
    return "".join(
        f"2026-03-11T10:{rng.randrange(60):02}:{rng.randrange(60):02}.{rng.randrange(10**6):06}Z INFO [w-{rng.randrange(9)}] "
        + rng.choice(said).format(w=word(rng), u=uuid(rng), n=rng.randrange(10_000), h=of(rng, "hex", 16))
        + "\n"
        for _ in range(40)
    )


def git_log(rng: Random) -> str:
    """Output of git log."""
    return "".join(
        f"commit {of(rng, 'hex', 40)}\nAuthor: Anna Berg <anna@example.org>\nDate:   Wed Mar 11 10:03:17 2026 +0100\n\n"
        f"    {rng.choice(('Fix password reset of', 'Rename token in', 'Rotate secret of', 'Drop api key from'))} {word(rng)}\n\n"
        for _ in range(12)
    )


def arns(rng: Random) -> str:
    """Names of AWS resources."""
    account = of(rng, "d", 12)
    lines = [
        f"arn:aws:iam::{account}:role/{word(rng)}-{word(rng)}",
        f"arn:aws:secretsmanager:eu-west-1:{account}:secret:{word(rng)}/db-password-{of(rng, 'a', 6)}",
        f"arn:aws:kms:eu-west-1:{account}:key/{uuid(rng)}",
        f"arn:aws:ssm:eu-west-1:{account}:parameter/{word(rng)}/api_key",
        f"arn:aws:acm:eu-west-1:{account}:certificate/{uuid(rng)}",
    ]
    return "resources:\n" + "".join(f"  - {line}\n  - secret: {line}\n" for line in lines)


def part_numbers(rng: Random) -> str:
    """Part numbers and serial numbers in the format of a social security number."""
    return "part,description,stock\n" + "".join(
        f"{rng.randrange(1, 899):03}-{rng.randrange(1, 99):02}-{rng.randrange(1, 9999):04},{word(rng)},{rng.randrange(99)}\n"
        for _ in range(20)
    )


def orders(rng: Random) -> str:
    """Order numbers and tracking numbers with a valid Luhn digit."""
    return "".join(
        rng.choice(("Order no. {n} shipped", "order_id: {n}", "Tracking number {n}", "invoice {n}, paid")).format(
            n=card(rng, rng.choice("12789"), rng.choice((13, 14, 16)))
        )
        + "\n"
        for _ in range(15)
    )


def ids(rng: Random) -> str:
    """Lists of ids of many formats."""
    return "".join(
        f"- {word(rng)}: {fill(rng, rng.choice(('<uuid>', '<hex:24>', '<b32:26>', '<a:22>', '<d:19>', '<hex:32>')))}\n"
        for _ in range(25)
    )


def public_keys(rng: Random) -> str:
    """Certificates and public keys."""
    return (
        f"-----BEGIN CERTIFICATE-----\n{lines64(rng, 900)}\n-----END CERTIFICATE-----\n"
        f"-----BEGIN PUBLIC KEY-----\n{lines64(rng, 290)}\n-----END PUBLIC KEY-----\n"
        f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5{bytes64(rng, 36)} anna@laptop\nssh-rsa AAAAB3NzaC1yc2E{bytes64(rng, 380)} ci\n"
        f"SHA256:{fill(rng, '<b64:43>')} anna@laptop (ED25519)\n"
    )


def numbers(rng: Random) -> str:
    """Columns of telephone numbers, ISBNs, versions, coordinates and amounts of money."""
    return "phone,isbn,lat,lon,amount,reference\n" + "".join(
        f"+49 30 {rng.randrange(10**7):07},978-{rng.randrange(10)}-{rng.randrange(10**4):04}-{rng.randrange(10**4):04}-"
        f"{rng.randrange(10)},{rng.uniform(-90, 90):.6f},{rng.uniform(-180, 180):.6f},{rng.randrange(10**6) / 100},"
        f"{grouped('1' + of(rng, 'd', 15), (4,), ' ') if rng.random() < 0.1 else of(rng, 'd', 11)}\n"
        for _ in range(20)
    )


def password_policy(rng: Random) -> str:
    """Table with a column about passwords that contains no password."""
    rows = "".join(
        f"{word(rng)},{rng.choice(('required', 'optional', 'yes', 'no', 'expired', 'in vault', 'rotated 2026-Q3', 'n/a'))},"
        f"{rng.randrange(90)}\n"
        for _ in range(12)
    )
    return f"system,password,max_age_days\n{rows}\n| system | password rotation |\n|---|---|\n| wiki | 2026-Q{rng.randrange(1, 5)} |\n"


def hashed(rng: Random) -> str:
    """Seed data of a test database, and configuration with references instead of values."""
    name = word(rng)
    return (
        f"secret_version: {rng.randrange(9)}\npassword_file: /run/secrets/{name}_password\nkey_path: /etc/{name}/key.pem\n"
        f"token_ttl: {rng.randrange(3_600)}\npassword_min_length: 12\nsecretName: {name}-tls\n"
        f"api_key_header: X-Api-Key\nauth_token_expires: 2026-12-01T00:00:00Z\npassword rotation: 2026-Q3\n"
        f"token_type: bearer\nencryption_key_id: {of(rng, 'hex', 12)}\npasswordPolicy: strict\nkey: {name}\n"
    )


MAKERS: dict[str, Make] = {
    "package-lock.json": package_lock,
    "go.sum": go_sum,
    "RECORD": record,
    "checksums": checksums,
    "data uri, css": data_uri_css,
    "data uri, svg": data_uri_svg,
    "access log": access_log,
    "application log": application_log,
    "git log": git_log,
    "arns": arns,
    "part numbers": part_numbers,
    "order numbers": orders,
    "ids": ids,
    "public keys": public_keys,
    "numbers": numbers,
    "password policy": password_policy,
    "references": hashed,
    **CODE,
    **PROSE,
}
"""Generators by kind of document."""
