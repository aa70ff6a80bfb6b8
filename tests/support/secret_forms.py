"""Forms of secrets: each is one text with one value, made at run time. `{v}` is the value."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from support.detection.draw import fill

PASSWORD = "<L:3><d:2><L:3>#<d:1><L:4>"

# Name, template of the value, text.
FORMS: tuple[tuple[str, str, str], ...] = (
    ("redis-cli", PASSWORD, "redis-cli -a {v}"),
    ("redis-cli quoted", PASSWORD, 'redis-cli -a "{v}" ping'),
    ("sshpass", PASSWORD, "sshpass -p '{v}' ssh host"),
    ("sshpass quoted", PASSWORD, 'sshpass -p "{v}" ssh host'),
    ("curl", PASSWORD, "curl -u ann:{v} https://x.example"),
    ("curl quoted", PASSWORD, 'curl -u "ann:{v}" https://x.example'),
    ("mysql", PASSWORD, "mysql -uroot -p'{v}' shop"),
    ("mysql quoted", PASSWORD, 'mysql -uroot -p"{v}" shop'),
    ("docker login", PASSWORD, 'docker login -u ann -p "{v}"'),
    ("identified by", PASSWORD, "CREATE USER ann IDENTIFIED BY '{v}';"),
    ("identified by, quoted", PASSWORD, 'CREATE USER ann IDENTIFIED BY "{v}";'),
    ("auth tuple", PASSWORD, 'get(url, auth=("ann", "{v}"))'),
    ("auth tuple, apostrophes", PASSWORD, "get(url, auth=('ann', '{v}'))"),
    ("net use", PASSWORD, "net use z: {v} /user:ann"),
    ("chpasswd", PASSWORD, 'echo "ann:{v}" | chpasswd'),
    ("securestring", PASSWORD, 'ConvertTo-SecureString "{v}" -AsPlainText -Force'),
    ("passin", PASSWORD, "openssl rsa -passin pass:{v} -in key"),
    ("assignment", PASSWORD, "DB_PASSWORD={v}"),
    ("assignment quoted", PASSWORD, 'DB_PASSWORD="{v}"'),
    ("assignment, apostrophes", PASSWORD, "password = '{v}'"),
    ("yaml", PASSWORD, "database:\n  password: {v}\n  user: ann\n"),
    ("dictionary", PASSWORD, '{"user": "ann", "password": "{v}"}'),
    ("xml", PASSWORD, "<config><password>{v}</password></config>"),
    ("url", PASSWORD, "postgres://ann:{v}@db.example/shop"),
    ("connection string", PASSWORD, 'conn = "Server=db;User Id=sa;Password={v};"'),
    ("jdbc", PASSWORD, "jdbc:mysql://db/shop?user=ann&password={v}&ssl=true"),
    ("pgpass", PASSWORD, "db.example:5432:shop:ann:{v}"),
    ("github", "ghp_<a:30><crc>", 'git clone https://x.example -c "token={v}"'),
    ("github alone", "ghp_<a:30><crc>", "{v}"),
    ("anthropic", "sk-ant-api03-<a:60>", 'export KEY="{v}"'),
    ("openai", "sk-proj-<a:60>", "client = OpenAI('{v}')"),
    ("aws key id", "AKIA<b32:16>", '"{v}"'),
    ("aws secret", "<b64:40>", 'aws_secret_access_key = "{v}"'),
    ("slack", "xoxb-<d:12>-<d:12>-<a:24>", "slack {v}"),
    ("stripe", "sk_live_<a:24>", "stripe('{v}')"),
    ("google", "AIza<a:35>", 'key: "{v}"'),
    ("gitlab", "glpat-<a:20>", "glab auth login --token {v}"),
    ("telegram", "<d:10>:AA<a:33>", "bot {v}"),
    ("azure storage", "<b64:86>==", "AccountName=x;AccountKey={v};EndpointSuffix=core.windows.net"),
    ("bearer", "<a:40>", "curl -H 'Authorization: Bearer {v}' https://x.example"),
    ("bearer quoted", "<a:40>", 'curl -H "Authorization: Bearer {v}" https://x.example'),
    ("private key", "<b64:300>", "-----BEGIN PRIVATE KEY-----\n{v}\n-----END PRIVATE KEY-----\n"),
    ("private key cut", "<b64:200>", "-----BEGIN PRIVATE KEY-----\n{v}"),
    ("private key cut, quoted", "<b64:200>", 'key = "-----BEGIN RSA PRIVATE KEY-----\n{v}"'),
    ("private key cut, apostrophes", "<b64:200>", "key = '-----BEGIN OPENSSH PRIVATE KEY-----\n{v}'"),
    ("private key in lines", "<b64:64>", 'key = "-----BEGIN EC PRIVATE KEY-----\\n{v}\\n-----END EC PRIVATE KEY-----"'),
)  # fmt: skip
INSIDE = ("{}", 'ssh db "{}"', "sh -c '{}'", "before\n{}\nafter")


def texts(seed: int = 1) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the text and the value of each form, alone and inside other texts."""
    rng = Random(seed)
    for name, template, form in FORMS:
        value = fill(rng, template)
        for number, outer in enumerate(INSIDE):
            yield f"{name} {number}", outer.replace("{}", form.replace("{v}", value)), value


def remains(value: str, text: str) -> bool:
    """Return whether anything of a value that matters is left in a text."""
    return any(value[at : at + 5] in text for at in range(0, len(value) - 4, 4))
