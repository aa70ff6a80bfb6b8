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
    ("query", PASSWORD[:-6], "https://x.example/cb?password={v}&_=17&flag"),
    ("query, amp", "<a:28>", "https://x.example/?q=tea&amp;token={v}&amp;1=2"),
    ("query, several", "<a:28>", "https://x.example/?a=1&api_key={v}&x[]=2"),
    ("netrc", PASSWORD, "machine api.example.com login ann password {v}"),
    ("netrc in lines", PASSWORD, "machine api.example.com\n  login ann\n  password {v}\n"),
    ("cluster key", "<b64:200>", "users:\n- name: ann\n  user:\n    client-key-data: {v}\n"),
    ("cluster token", "<a:60>", "users:\n- name: ann\n  user:\n    token: {v}\n"),
    ("npmrc", "<uuid>", "//registry.npmjs.org/:_authToken={v}"),
    ("pypirc", "pypi-AgE<a:80>", "[pypi]\nusername = __token__\npassword = {v}\n"),
    ("docker config", "YW5u<b64:20>", '{"auths": {"ghcr.io": {"identitytoken": "{v}"}}}'),
    ("my.cnf", PASSWORD, "[client]\nuser=root\npassword='{v}'\n"),
    ("infrastructure", PASSWORD, 'resource "aws_db_instance" "x" {\n  password = "{v}"\n}\n'),
    ("infrastructure variable", PASSWORD, 'variable "db_password" {\n  type = string\n  default = "{v}"\n}\n'),
    ("option", PASSWORD, "tool --user ann --password {v}"),
    ("option quoted", PASSWORD, 'tool --password "{v}" x'),
    ("option, apostrophes", PASSWORD, "tool --docker-password='{v}'"),
    ("option passphrase", PASSWORD, "gpg --batch --passphrase {v} -d a.gpg"),
    ("option storepass", PASSWORD, "keytool -genkey -storepass {v}"),
    ("option api key", "<a:32>", 'tool --api-key "{v}" --verbose'),
    ("option token", "<a:40>", "tool --access-token {v}"),
    ("option client secret", "<a:40>", "az login --client-secret '{v}'"),
    ("mysql option", PASSWORD, "mysqldump --user=root --password {v} shop"),
    ("7z", PASSWORD, "7z x -p{v} a.7z"),
    ("unzip", PASSWORD, "unzip -P {v} a.zip"),
    ("smbclient", PASSWORD, "smbclient //srv/share -U ann%{v}"),
    ("lftp", PASSWORD, "lftp -u ann,{v} ftp://x.example"),
    ("freerdp", PASSWORD, "xfreerdp /u:ann /p:{v} /v:host"),
    ("rdesktop", PASSWORD, "rdesktop -u ann -p {v} host"),
    ("httpie", PASSWORD, "http -a ann:{v} https://x.example"),
    ("wifi", PASSWORD, "nmcli dev wifi connect Home password {v}"),
    ("curl joined", PASSWORD, "curl -uann:{v} https://x.example"),
    ("cookie", "<a:32>", "Cookie: theme=dark; sessionid={v}; lang=en"),
    ("cookie of a framework", "<hex:32>", "log JSESSIONID={v} end"),
    ("set-cookie", "<a:40>", "Set-Cookie: __Host-session={v}; Path=/; Secure"),
    ("curl cookie", "<a:40>", 'curl -b "session={v}" https://x.example'),
    ("cookies in code", "<a:40>", 'get(url, cookies={"session": "{v}"})'),
    ("composio", "uak_<w:43>", "composio {v}"),
    ("neon", "napi_<a:64>", 'neon = "{v}"'),
    ("mongodb atlas", "mdb_sa_sk_<a:40>", "atlas '{v}'"),
    ("together", "tgp_v1_<a:43>", "key {v}"),
    ("gemini", "AQ.Ab8RN6<a:44>", "key {v}"),
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
