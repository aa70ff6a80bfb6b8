"""Random values of every kind. They are generated from vendor documentation, not from the detection rules."""

# ruff: noqa: E501 - a row of a table is a line

from __future__ import annotations

import base64
import json
import string
import zlib
from collections.abc import Callable
from random import Random

HEX = "0123456789abcdef"
DIGITS = string.digits
UPPER = string.ascii_uppercase
LOWER = string.ascii_lowercase
ALNUM = string.ascii_letters + DIGITS
BASE64 = ALNUM + "+/"
URL64 = ALNUM + "-_"
BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"
BASE62 = DIGITS + UPPER + LOWER  # as GitHub computes it
WORDS = (
    "winter",
    "summer",
    "monkey",
    "dragon",
    "tulip",
    "kiwi",
    "zebra",
    "falke",
    "montag",
    "tokyo",
    "laptop",
    "panda",
)
IBANS: dict[str, int | str] = {
    "DE": 18,
    "FR": 23,
    "GB": "NWBK14",
    "NL": "ABNA10",
    "ES": 20,
    "AT": 16,
    "CH": 17,
    "BE": 12,
    "NO": 11,
    "PL": 24,
}


def of(rng: Random, alphabet: str, length: int) -> str:
    return "".join(rng.choices(alphabet, k=length))


def crc62(text: str) -> str:
    number, out = zlib.crc32(text.encode()), ""
    for _ in range(6):
        number, rest = divmod(number, 62)
        out = BASE62[rest] + out
    return out


def uuid(rng: Random) -> str:
    return "-".join(of(rng, HEX, size) for size in (8, 4, 4, 4, 12))


def segment(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def github(rng: Random) -> str:
    if rng.random() < 0.3:
        head, body = of(rng, ALNUM, 22), of(rng, ALNUM, 53)
        return f"github_pat_{head}_{body}{crc62(body)}"
    body = of(rng, ALNUM, 30)
    return rng.choice(["ghp_", "gho_", "ghu_", "ghs_", "ghr_"]) + body + crc62(body)


def npm(rng: Random) -> str:
    body = of(rng, ALNUM, 30)
    return f"npm_{body}{crc62(body)}"


def jwt(rng: Random) -> str:
    head = segment({"alg": rng.choice(["HS256", "RS256", "ES384"]), "typ": "JWT", "kid": of(rng, HEX, 8)})
    body = segment({"sub": of(rng, DIGITS, 10), "iat": rng.randrange(10**9), "name": of(rng, LOWER, 6)})
    return f"{head}.{body}.{of(rng, URL64, 43)}"


def card(rng: Random) -> str:
    prefix, length = rng.choice(
        [("4", 16), ("52", 16), ("2345", 16), ("37", 15), ("6011", 16), ("3530", 16), ("36", 14)]
    )
    digits = prefix + of(rng, DIGITS, length - len(prefix) - 1)
    total = sum(sum(divmod(int(digit) * 2, 10)) if at % 2 == 0 else int(digit) for at, digit in enumerate(digits[::-1]))
    digits += str(-total % 10)
    mark = rng.choice(["", " ", "-"])
    cuts = (4, 6, 5) if length == 15 else (4, 4, 4, 4)
    parts, at = [], 0
    for cut in cuts:
        parts.append(digits[at : at + cut])
        at += cut
    return mark.join(part for part in parts if part)


def iban(rng: Random) -> str:
    country, form = rng.choice(list(IBANS.items()))
    body = of(rng, DIGITS, form) if isinstance(form, int) else form[:4] + of(rng, DIGITS, int(form[4:]))
    number = int("".join(str(int(char, 36)) for char in f"{body}{country}00"))
    plain = f"{country}{98 - number % 97:02}{body}"
    return plain if rng.random() < 0.4 else " ".join(plain[at : at + 4] for at in range(0, len(plain), 4))


def ssn(rng: Random) -> str:
    area = rng.choice([rng.randrange(1, 666), rng.randrange(667, 900)])
    return f"{area:03}-{rng.randrange(1, 100):02}-{rng.randrange(1, 10_000):04}"


def pem(rng: Random) -> str:
    name = rng.choice(["RSA ", "EC ", "", "OPENSSH ", "ENCRYPTED ", "DSA "])
    lines = [of(rng, BASE64, 64) for _ in range(rng.randrange(2, 26))] + [of(rng, BASE64, 30) + "=="]
    return "\n".join([f"-----BEGIN {name}PRIVATE KEY-----", *lines, f"-----END {name}PRIVATE KEY-----"])


def pgp(rng: Random) -> str:
    lines = [of(rng, BASE64, 64) for _ in range(12)] + ["=" + of(rng, BASE64, 4)]
    head, tail = "-----BEGIN PGP PRIVATE KEY BLOCK-----", "-----END PGP PRIVATE KEY BLOCK-----"
    return "\n".join([head, "", *lines, tail])


def password(rng: Random) -> str:
    word = rng.choice(WORDS)
    leet = word.replace("o", "0").replace("e", "3").replace("a", "@")
    return rng.choice(
        [
            of(rng, ALNUM, 10) + "7aQ",
            of(rng, ALNUM + "!@#$%^*-_+", 14) + "x7",
            word + str(rng.randrange(1, 9999)),
            word.title() + str(rng.randrange(10, 9999)) + rng.choice("!@#$%"),
            "-".join([word, *rng.sample(["horse", "battery", "staple", "cloud", "river", "lamp"], 3)]),
            leet + of(rng, DIGITS, 2) + "!x",
            of(rng, ALNUM + "!#%+", 20) + "9k",
        ]
    )


def gcp(rng: Random) -> str:
    key = r"-----BEGIN PRIVATE KEY-----\n" + r"\n".join(of(rng, BASE64, 64) for _ in range(25))
    return key + r"\n-----END PRIVATE KEY-----\n"


def discord(rng: Random) -> str:
    number = base64.b64encode(str(rng.randrange(10**17, 10**18)).encode()).decode().rstrip("=")
    return f"{number}.{of(rng, ALNUM, 6)}.{of(rng, ALNUM, 38)}"


Make = Callable[[Random], str]


def form(prefix: str, alphabet: str, length: int, tail: str = "") -> Make:
    return lambda rng: rng.choice(prefix.split()) + of(rng, alphabet, length) + tail


# Values that are recognized by their own form, in any context.
BARE: dict[str, list[Make]] = {
    "aws_access_key_id": [form("AKIA ASIA", UPPER + "234567", 16)],
    "google_api_key": [form("AIza", URL64, 34, "a")],
    "google_oauth": [form("GOCSPX-", URL64, 27, "a"), form("ya29.", URL64, 120)],
    "azure_client_secret": [lambda rng: f"{of(rng, ALNUM, 3)}8Q~{of(rng, ALNUM + '_.-~', 33)}a"],
    "azure_storage_key": [lambda rng: f"AccountKey={of(rng, BASE64, 86)}=="],
    "digitalocean_token": [form("dop_v1_ doo_v1_", HEX, 64)],
    "alibaba_access_key": [form("LTAI5t", ALNUM, 18)],
    "terraform_token": [lambda rng: f"{of(rng, ALNUM, 14)}.atlasv1.{of(rng, ALNUM, 67)}"],
    "vault_token": [form("hvs.", URL64, 90, "a")],
    "netlify_token": [form("nfp_", ALNUM, 36)],
    "fly_token": [form("fo1_", URL64, 42, "a"), form("fm2_", BASE64, 200)],
    "github_token": [github],
    "gitlab_token": [form("glpat- gldt- glrt-", URL64, 19, "a")],
    "atlassian_token": [lambda rng: f"ATATT3xFfGF0{of(rng, URL64, 170)}={of(rng, '0123456789ABCDEF', 8)}"],
    "bitbucket_token": [form("ATBB", ALNUM, 32)],
    "slack_token": [lambda rng: f"xoxb-{of(rng, DIGITS, 12)}-{of(rng, DIGITS, 13)}-{of(rng, ALNUM, 24)}",
                    lambda rng: f"xapp-1-A{of(rng, UPPER, 10)}-{of(rng, DIGITS, 13)}-{of(rng, HEX, 64)}"],
    "slack_webhook": [lambda rng: f"https://hooks.slack.com/services/T{of(rng, UPPER, 8)}/B{of(rng, UPPER, 10)}/{of(rng, ALNUM, 24)}"],
    "discord_token": [discord],
    "discord_webhook": [lambda rng: f"https://discord.com/api/webhooks/{of(rng, '123456789', 18)}/{of(rng, URL64, 67)}a"],
    "telegram_token": [lambda rng: f"{of(rng, '123456789', 10)}:AA{of(rng, URL64, 32)}a"],
    "teams_webhook": [lambda rng: f"https://acme.webhook.office.com/webhookb2/{uuid(rng)}@{uuid(rng)}/IncomingWebhook/{of(rng, HEX, 32)}/{uuid(rng)}"],
    "twilio_key": [form("SK", HEX, 32)],
    "sendgrid_key": [lambda rng: f"SG.{of(rng, URL64, 22)}.{of(rng, URL64, 42)}a"],
    "mailgun_key": [form("key-", HEX, 32), lambda rng: f"{of(rng, HEX, 32)}-{of(rng, HEX, 8)}-{of(rng, HEX, 8)}"],
    "mailchimp_key": [lambda rng: f"{of(rng, HEX, 32)}-us{rng.randrange(1, 22)}"],
    "stripe_key": [form("sk_live_ rk_live_ sk_test_", ALNUM, 24), form("sk_live_51", ALNUM, 97), form("whsec_", ALNUM, 32)],
    "braintree_token": [lambda rng: f"access_token$production${of(rng, LOWER + DIGITS, 16)}${of(rng, HEX, 32)}"],
    "square_token": [form("sq0csp-", URL64, 42, "a"), form("EAAA", URL64, 59, "a")],
    "shopify_token": [form("shpat_ shpss_ shpca_ shppa_", HEX, 32)],
    "adyen_key": [lambda rng: f"AQEyhm{of(rng, ALNUM, 60)}-{of(rng, ALNUM, 43)}=-{of(rng, ALNUM, 16)}"],
    "openai_key": [lambda rng: f"sk-proj-{of(rng, URL64, 74)}T3BlbkFJ{of(rng, ALNUM, 73)}", lambda rng: f"sk-{of(rng, ALNUM, 20)}T3BlbkFJ{of(rng, ALNUM, 20)}"],
    "anthropic_key": [form("sk-ant-api03- sk-ant-admin01- sk-ant-oat01-", URL64, 93, "AA")],
    "openrouter_key": [form("sk-or-v1-", HEX, 64)],
    "huggingface_token": [form("hf_", string.ascii_letters, 34)],
    "replicate_token": [form("r8_", ALNUM, 37)],
    "groq_key": [form("gsk_", ALNUM, 52)],
    "perplexity_key": [form("pplx-", ALNUM, 48)],
    "xai_key": [form("xai-", ALNUM, 80)],
    "npm_token": [npm],
    "pypi_token": [form("pypi-AgEIcHlwaS5vcmc", URL64, 150)],
    "rubygems_key": [form("rubygems_", HEX, 48)],
    "crates_token": [form("cio", ALNUM, 32)],
    "dockerhub_token": [form("dckr_pat_", URL64, 26, "a")],
    "nuget_key": [form("oy2", LOWER + DIGITS, 43)],
    "new_relic_key": [form("NRAK-", UPPER + DIGITS, 27), lambda rng: of(rng, HEX, 36) + "NRAL"],
    "grafana_token": [lambda rng: f"glsa_{of(rng, ALNUM, 32)}_{of(rng, HEX, 8)}", form("glc_eyJ", ALNUM, 120)],
    "linear_key": [form("lin_api_", ALNUM, 40)],
    "notion_token": [form("ntn_", ALNUM, 46), form("secret_", ALNUM, 43)],
    "airtable_token": [lambda rng: f"pat{of(rng, ALNUM, 14)}.{of(rng, HEX, 64)}"],
    "figma_token": [form("figd_", URL64, 39, "a")],
    "databricks_token": [form("dapi", HEX, 32)],
    "supabase_key": [form("sbp_", HEX, 40), form("sb_secret_", URL64, 30, "a")],
    "planetscale_token": [form("pscale_tkn_ pscale_pw_", URL64, 42, "a")],
    "doppler_token": [form("dp.pt. dp.st.prd. dp.ct.", ALNUM, 43)],
    "onepassword_token": [form("ops_eyJ", ALNUM, 300)],
    "age_secret_key": [form("AGE-SECRET-KEY-1", BECH32, 58)],
    "sentry_token": [form("sntryu_", HEX, 64)],
    "pulumi_token": [form("pul-", HEX, 40)],
    "postman_key": [lambda rng: f"PMAK-{of(rng, HEX, 24)}-{of(rng, HEX, 34)}"],
    "private_key": [pem, pgp],
    "jwt": [jwt],
    "url_password": [lambda rng: f"{rng.choice(['postgres', 'mysql', 'redis', 'https', 'amqp', 'mongodb+srv'])}://app:{of(rng, ALNUM + '!*-_.', 14)}a@db.internal:5432/x"],
    "connection_string": [lambda rng: f"Server=tcp:db.internal,1433;Database=app;User Id=sa;Password={of(rng, ALNUM + '!#-_', 14)}a;Encrypt=True"],
    "azure_sas": [lambda rng: f"https://acme.blob.core.windows.net/c?sv=2022-11-02&se=2030-01-01&sr=c&sp=rl&sig={of(rng, ALNUM, 43)}%3D"],
    "azure_connection_key": [lambda rng: f"Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={of(rng, BASE64, 43)}="],
    "gcp_service_account_key": [lambda rng: f'{{"type": "service_account", "private_key": "{gcp(rng)}", "client_email": "x"}}'],
    "payment_card": [card],
    "iban": [iban],
    "us_ssn": [lambda rng: f"SSN {ssn(rng)}"],
}  # fmt: skip

# Values that are recognized by the name before them: name in prose, name in configuration, value.
NAMED: dict[str, list[tuple[str, str, Make]]] = {
    "aws_secret_key": [("AWS secret access key", "AWS_SECRET_ACCESS_KEY", lambda rng: of(rng, BASE64, 40))],
    "datadog_key": [("Datadog API key", "DATADOG_API_KEY", lambda rng: of(rng, HEX, 32)),
                    ("Datadog app key", "DD_APP_KEY", lambda rng: of(rng, HEX, 40))],
    "cloudflare_token": [("Cloudflare API token", "CLOUDFLARE_API_TOKEN", lambda rng: of(rng, URL64, 39) + "a")],
    "heroku_key": [("Heroku API key", "HEROKU_API_KEY", uuid)],
    "vercel_token": [("Vercel token", "VERCEL_TOKEN", lambda rng: of(rng, ALNUM, 24))],
    "twilio_key": [("Twilio auth token", "TWILIO_AUTH_TOKEN", lambda rng: of(rng, HEX, 32))],
    "postmark_token": [("Postmark server token", "POSTMARK_SERVER_TOKEN", uuid)],
    "paypal_secret": [("PayPal client secret", "PAYPAL_CLIENT_SECRET", lambda rng: "E" + of(rng, URL64, 78) + "a")],
    "cohere_key": [("Cohere API key", "COHERE_API_KEY", lambda rng: of(rng, ALNUM, 40))],
    "okta_token": [("Okta API token", "OKTA_API_TOKEN", lambda rng: "00" + of(rng, URL64, 39) + "a")],
    "alibaba_access_key": [("Alibaba access key secret", "ALIBABA_ACCESS_KEY_SECRET", lambda rng: of(rng, ALNUM, 30))],
    "mistral_key": [("Mistral API key", "MISTRAL_API_KEY", lambda rng: of(rng, ALNUM, 32))],
    "auth0_secret": [("Auth0 client secret", "AUTH0_CLIENT_SECRET", lambda rng: of(rng, URL64, 63) + "a")],
    "password": [("password", "DB_PASSWORD", password), ("password", "password", password)],
    "secret": [("API key", "API_KEY", lambda rng: of(rng, ALNUM, 24)), ("secret", "CLIENT_SECRET", lambda rng: of(rng, HEX, 32)),
               ("access token", "access_token", lambda rng: of(rng, URL64, 39) + "a")],
}  # fmt: skip
