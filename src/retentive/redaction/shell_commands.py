"""Rules for passwords in shell commands, in function calls and after a user name, and for values of `...key` names."""

# ruff: noqa: E501 - a row of a table is a line

from __future__ import annotations

import re

from retentive.redaction.checks import is_random
from retentive.redaction.plausibility import Value, is_obvious, is_secret, is_strong_look
from retentive.redaction.rules import Find, Rule
from retentive.redaction.tokens import UUID
from retentive.redaction.words import is_placeholder

_Q = "[\"'`]"
_ARG = r"[\"']?(?P<value>[^\s\"'`$<>|;-][^\s\"'`<>|;]{3,100})"
_STOP = r"\u3001\u3002\uff0c\uff1b\uff08\uff09\u300c\u300d"
_PAIRED = rf"(?P<value>[^\s\"'`*|<>{_STOP}]{{4,63}}[^\s\"'`*|<>.,;:){_STOP}])"
_OBVIOUS = r"[\"'`]?(?P<value>[^\s\"'`<>|/:()]{6,64})(?=[\s\"'`|)]|$)"
_OBVIOUS_START = r"[\"'`]?[\w.-]+[@#$%^&*!+~]"  # RE2 pattern for the start of `_OBVIOUS`
_LOGINS = (
    "credential", "creds", "login", "account", "zugangsdaten", "anmeldedaten", "logindaten", "identifiants", "accès",
    "ログイン情報", "認証情報", "アカウント情報", "账号密码", "帐号密码", "帳號密碼", "登录信息", "登入資訊", "帐密", "帳密", "账密",
)  # fmt: skip
_AUTHS = (
    "login(",
    "auth=(",
    "auth(",
    "basicauth(",
    "networkcredential(",
    "credentials(",
    "authenticate(",
    "authentication(",
    "httpbasic(",
)
# Prefixes of names of keys that are not secret, such as `public_key` and `cache_key`.
_OTHER_KEYS = "public|pubkey|pub_|cache|idempot|site|partition|primary|foreign|host|object|file|sort|row|dedup|s3|publish|anon|routing"
_OTHER_KEY = re.compile(
    rf"(?:{_OTHER_KEYS})[\w-]{{0,40}}$|(?:public|host|cache|primary|öffentlicher) [\w.-]{{0,40}}$", re.IGNORECASE
)
_UUID = re.compile(UUID)


def is_argument(value: str) -> bool:
    """Return whether a password argument of a command is a real value, not a placeholder, path, option or port."""
    plain = re.fullmatch(r"[\d:.,/]+|\.{0,2}/.*|[a-z]+://.*|\(.*|\[.*|\\.*", value)
    return plain is None and not is_placeholder(value) and len(set(value)) > 1


def is_paired(value: str) -> bool:
    """Return whether the text after a user name looks like a password, not an address, date or word."""
    return is_argument(value) and "://" not in value and not value.startswith("//") and is_strong_look(value)


def is_obvious_argument(value: str) -> bool:
    """Return whether the text after a name and a slash is almost certainly a password."""
    return is_argument(value) and is_obvious(value.rstrip(".,;"))


def is_key(value: str) -> bool:
    """Return whether the value of a `...key` name is long and random."""
    candidate = Value(value, "equal", quoted=True, alone=True, tight=True, config=True)
    return _UUID.fullmatch(value) is None and is_secret(candidate) and is_random(value)


class _KeyRule(Rule):
    """Rule for names that end in `key`, except names of keys that are not secret."""

    def to_find(self, match: re.Match[str]) -> Find | None:
        """Return the find for a match, or None if the name before it is of a key that is not secret."""
        start = match.start()
        return None if _OTHER_KEY.search(match.string[max(0, start - 60) : start]) else super().to_find(match)


def _command(starts: str, pattern: str, kind: str = "password", then: str = "") -> Rule:
    return Rule(kind, pattern, is_argument, starts=tuple(starts.split("|")), then=then, ignore_case=True)


COMMANDS: list[Rule] = [
    _command("mysql|mariadb", rf"(?:mysql|mariadb)(?:dump|admin|import|check|show)?\s[^\n]{{0,200}}?\s-p{_ARG}", then=r"[^\n]*\s-p[^\s]"),
    _command("docker login|podman login|mongo|mosquitto_|ldap|sqlcmd|twine |cqlsh |oc login|az login|cf login|helm registry|skopeo |rabbitmqadmin ",
             rf"[\w -]{{2,24}}(?=\s)[^\n]{{0,160}}?\s-{{1,2}}(?:u|D|username|user)[ =][^\n]{{0,80}}?\s-(?:p(?!ass)|w)[ =]?{_ARG}", then=r"[^\n]*\s-[pw]"),
    _command("twine upload|docker login|podman login|plink |pscp |7z |7za |zip -|unzip -|smbclient |rpcclient |lftp |xfreerdp |htpasswd -|net use |net user |openssl enc|openssl aes",
             rf"(?:twine upload[^\n]{{0,80}}?\s-p[ =]?|(?:docker|podman) login[^\n]{{0,80}}?\s-p[ =]?|(?:plink|pscp)\s[^\n]{{0,80}}?-pw |7za? [^\n]{{0,80}}?\s-p|(?:un)?zip -[^\n]{{0,20}}?P ?|(?:smb|rpc)client [^\n]{{0,80}}?-U ?[\"']?[\w\\/.-]+%|lftp [^\n]{{0,40}}?-u ?[\"']?[\w.@-]+,|xfreerdp [^\n]{{0,120}}?/p:|htpasswd -\w*b\w* +\S+ +\S+ +|net use [^\n]{{0,20}}?\\\\\S+ +(?!/)|net user [\w.-]+ +(?![/*])|openssl [^\n]{{0,80}}?\s-k ){_ARG}"),
    _command("requirepass|masterauth|primaryauth|snmp-server community|rocommunity|rwcommunity",
             r"(?:requirepass|masterauth|primaryauth|snmp-server community|r[ow]community)[ \t]+[\"']?(?P<value>[^\s\"'`<>|;$]{5,100})"),
    Rule("password", r"(?:echo|printf)\s+(?:-\w+\s+)?[\"']?(?:[\w.-]{1,40}:(?=[^|\n]*chpasswd))?(?P<value>[^\s\"'|$:][^\s\"'|]{3,99})[\"']?\s*\|\s*(?:sudo\s+)?(?:chpasswd|sudo\s+-S|passwd\s+--stdin|[\w ./-]{1,80}--password-stdin|cryptsetup)",
         is_argument, holds=("chpasswd", "sudo -S", "--stdin", "--password-stdin", "cryptsetup")),
    Rule("password", r"enable (?:secret|password)(?: [05789])?[ \t]+(?P<value>[^\s\"'`<>|;$]{5,100})", is_paired, starts=("enable secret", "enable password")),
    Rule("secret", r"\b[a-z][\w-]{1,20}(?: config| auth)?[ ](?:login|authtoken|add-authtoken|auth)[ ](?P<value>[A-Za-z0-9_-]{24,200})(?![\w.=-])", is_key,
         gate=r"(?:login|authtoken|auth) [A-Za-z0-9_-]{20}", holds=("login ", "authtoken ", "auth ")),
    Rule("password", rf"(?<![/.\w@-])[\w.-]{{2,40}}(?:@[\w.-]{{2,60}})? / {_OBVIOUS}", is_obvious_argument,
         holds=(" / ",), gate=rf"[\w-] / {_OBVIOUS_START}"),
    Rule("password", rf"(?<![/.\w@-])(?:admin|administrator|root|guest|user|test|demo)\w{{0,6}} ?[/:] ?{_OBVIOUS}", is_obvious_argument,
         starts=("admin", "root", "guest", "user", "test", "demo"), then=rf"\w* ?[/:] ?{_OBVIOUS_START}"),
    Rule("secret", r"(?:licen[cs]e|lizenz|product|produkt)[^\n]{0,40}?[ :=\"'`](?P<value>[A-Z0-9]{4,6}(?:-[A-Z0-9]{4,6}){3,5})(?![\w-])", is_random, starts=("license", "licence", "lizenz", "product key", "produktschl"), ignore_case=True,
         then=r"[^\n]*[A-Z0-9]{4}-[A-Z0-9]{4}"),
    _command("convertto-securestring", r"convertto-securestring\s+(?:-\w+\s+){0,3}[\"'](?P<value>[^\s\"'$]{4,100})[\"']"),
    _command("jdbc:oracle|sqlplus", r"(?:jdbc:oracle:\w+:|sqlplus\s+(?:-\w+\s+)*)[\w$#]{1,30}/(?P<value>[^\s@/\"'$]{3,64})@", "connection_string"),
    Rule("connection_string", r"(?<![\w/:.@-])[A-Za-z][\w.-]{0,40}:(?P<value>[^\s:@/\"'`<>{}()$]{4,64})@(?:[A-Za-z0-9.-]{1,60}:\d{2,5}(?!\d)|(?:tcp|unix)\()",
         is_paired, holds=("@",), gate=r":[^\s:@/\"'`<>{}()$]+@(?:[A-Za-z0-9.-]+:\d\d|tcp\(|unix\()"),
    Rule("password", rf"[a-z.]{{4,20}}=?\(\s{{0,3}}(?:[a-z_]{{1,20}}\s?=\s?)?{_Q}[^\"'`\n]{{1,80}}{_Q}\s{{0,3}},\s{{0,3}}(?:[a-z_]{{1,20}}\s?=\s?)?{_Q}(?P<value>[^\s\"'`]{{5,100}}){_Q}\s{{0,3}}[,)]",
         is_paired, starts=_AUTHS, then=r"\s*(?:[a-z_]+\s?=\s?)?[\"'`]", ignore_case=True),
    Rule("password", rf"(?:{'|'.join(_LOGINS)})[^\n:\uff1a=/|]{{0,40}}(?:[:\uff1a=\u2192-]|->){{1,2}}\s{{0,3}}[\"'`*]{{0,3}}[\w.+-]{{1,40}}(?:@[\w.-]{{1,60}})?[\"'`*]{{0,3}}\s{{0,2}}(?:[/:|,\u2192\u3001\uff0c]|und|and|et|with)\s{{0,2}}(?:(?:pw|pass|mdp)\s)?[\"'`*]{{0,3}}{_PAIRED}",
         is_paired, starts=_LOGINS, then=r"[^\n:\x{ff1a}=/|]*[:\x{ff1a}=\x{2192}>-]\s*[\"'`*]*[\w.+@-]+[\"'`*]*\s*(?:[/:|,\x{2192}\x{3001}\x{ff0c}]|und|and|et|with)", ignore_case=True),
    _KeyRule("secret", r"(?:key|キー|clé|clef|schlüssel)(?:[ _-]?\d{1,2})?[\"'`*]{0,3}\s{0,2}(?:[:=\uff1a]|=>|->|\u2192|\u306f|\u662f|\u70ba|\u4e3a|(?<=\s)(?=[A-Za-z0-9]{32})|is\s|ist\s|lautet\s|est\s|[-\u2013]\s)\s{0,2}(?:b(?=[\"']))?[\"'`*\u201c\u201e\u00ab\u300c]{0,3}\s?(?P<value>[A-Za-z0-9+/_-]{20,200}={0,2})(?![A-Za-z0-9+/=_@(-]|\.\w)",
             is_key, starts=("key", "キー", "clé", "clef", "schlüssel"), ignore_case=True,
             then=r"(?:[ _-]?\d\d?)?[\"'`*]*\s?(?:[:=：]|=>|->|→|は|是|為|为|\s[A-Za-z0-9]{16}|is\s|ist\s|lautet\s|est\s|[-–]\s)\s?b?[\"'`*“„«「]*\s?[A-Za-z0-9+/_-]{16}"),
]  # fmt: skip
