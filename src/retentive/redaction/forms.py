"""Patterns for sensitive values that the surrounding text identifies: private keys, passwords in URLs and others.

Each tuple in `FORMS` has the kind of sensitive value, a search pattern in the syntax of RE2, a full pattern, the name
of a check, and a flag that is True if case is ignored. The full pattern is matched at the position where the search
pattern was found. Its group `value` is the sensitive part, which the check then accepts or rejects.
"""

# ruff: noqa: E501 - a row of a table is a line

from __future__ import annotations

_PEM = r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_PEM_BODY = r"(?:[A-Za-z0-9+/=\\\s:,.;>|*()\"'_@<]|-(?!-))"
_CONNECTION = "server=|data source=|host=|hostname=|driver=|dsn=|jdbc:|user id=|uid=|username=|initial catalog=|dbname=|addr=|endpoint="
_FIRST = r"(?:\$?\{[\w.]{1,40}\}|[^\s:/@\"'`<>{}$\[\]])"
_ARG = r"[\"']?(?P<value>[^\s\"'`$<>|;-][^\s\"'`<>|;]{3,100})"
_KEY_NAMES = r"(?:(?:api|auth|access|secret|client|bearer|bot|refresh|session|private|service|account|app|admin|master)[_-]?){1,3}(?:token|secret|key)|token|secret|apikey"
_WORD_NAMES = (
    r"(?:[a-z]{1,20}-){0,3}(?:password|passwd|passphrase|pass|pwd)|storepass|keypass|srcstorepass|deststorepass"
)
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

FORMS: tuple[tuple[str, str, str, str, bool], ...] = (
    ("gcp_service_account_key", "\"private_key\"[ \t]*:[ \t]*\"-----BEGIN",
     rf"\"private_key\"\s*:\s*\"(?P<value>{_PEM}[^\"]{{40,8000}}?-----END [A-Z ]+-----(?:\\n)?)", "pem", False),
    ("password", "auth[a-z]*[=(]+[\"'][^\"'\\n]+[\"'],[ ]*[\"'][^\"'\\s]{5}", r"auth[a-z]*[=(]+[\"'][^\"'\n]{1,80}[\"'], *[\"'](?P<value>[^\"'\s]{5,100})[\"']", "real", True),
    ("private_key", "-----BEGIN [A-Z0-9 ]*PRIVATE KEY",
     rf"(?P<value>{_PEM}(?:{_PEM_BODY}{{40,20000}}?-----END [A-Z0-9 ]{{1,40}}-----|[A-Za-z0-9+/=\\\s]{{40,20000}}))", "pem", False),
    ("private_key", "\"d\"[ \t]{0,3}:[ \t]{0,3}\"[A-Za-z0-9_-]{40}", r"\"d\"\s{0,3}:\s{0,3}\"(?P<value>[A-Za-z0-9_-]{40,700})\"", "mixed", False),
    ("private_key", "Private-Lines: ?[0-9]", r"Private-Lines: ?\d+\s+(?P<value>(?:[A-Za-z0-9+/=]{4,80}\s+){1,100}Private-MAC: ?[0-9a-f]{40,64})", "", False),
    ("url_password", "://[^\\s/@\"'<>`:]*:[^\\s/@\"'`<>]+@",
     rf"://(?P<user>{_FIRST}{{0,100}}):(?!(?P=user)@)(?P<value>[^\s/@\"'`<>]{{3,200}}(?:@[^\s/@\"'`<>:]{{1,60}})?)@(?=[\[A-Za-z0-9_$\{{-])", "no placeholder", False),
    ("connection_string", f"(?:{_CONNECTION})(?:[^\\n\"'`,()]*[;?& ])?(?:password|pwd)[ ]*=[ ]*[^\\s;\"'`&<>]{{3}}",
     rf"(?:{_CONNECTION})(?:[^\n\"'`,()]{{0,300}}?[;?& ])(?:password|pwd)\s{{0,3}}=\s{{0,3}}(?P<value>\{{[^}}\n]{{3,100}}\}}|[^\s;\"'`&<>{{}}]{{3,200}})(?=\s|[;\"'`&<>]|$)", "no placeholder", True),
    ("connection_string", "(?:jdbc:oracle:[a-z]+:|sqlplus )[^\\s@]*/[^\\s@]+@",
     r"(?:jdbc:oracle:\w+:|sqlplus\s+(?:-\w+\s+)*)[\w$#]{1,30}/(?P<value>[^\s@/\"'$]{3,64})@", "no placeholder", True),
    ("connection_string", ":[^\\s:@/\"'`<>{}()$]+@(?:tcp\\(|unix\\(|[a-z0-9.-]+:[0-9]{2})",
     r"(?<![\w/:.@-])[A-Za-z][\w.-]{0,40}:(?P<value>[^\s:@/\"'`<>{}()$]{4,64})@(?:[A-Za-z0-9.-]{1,60}:\d{2,5}(?!\d)|(?:tcp|unix)\()", "real", True),
    ("azure_storage_key", "accountkey=[a-z0-9+/]{86}==", r"AccountKey=(?P<value>[A-Za-z0-9+/]{86}==)", "", True),
    ("azure_connection_key", "sharedaccesskey=[a-z0-9+/]{42}", r"SharedAccessKey=(?P<value>[A-Za-z0-9+/]{42,44}={0,2})", "", True),
    ("azure_sas", "[?&;\"'](?:amp;)?sig=[a-z0-9%+/_-]{40}", r"[?&;\"'](?:amp;)?sig=(?P<value>[A-Za-z0-9%+/_-]{40,120}={0,2})", "", True),
    ("secret", "x-(?:amz|goog)-signature=[0-9a-f]{64}", r"x-(?:amz|goog)-signature=(?P<value>[0-9a-f]{64,1024})", "", True),
    ("dockerhub_token", "\"auth\"[ \t]{0,3}:[ \t]{0,3}\"[a-z0-9+/]{12}", r"\"auth\"\s{0,3}:\s{0,3}\"(?P<value>[A-Za-z0-9+/]{12,400}={0,2})\"", "basic", True),
    ("authorization_header", "(?:bearer|token)[ \t]{1,3}[a-z0-9._~+/-]{20}", r"(?:bearer|token)[ \t]{1,3}(?P<value>[A-Za-z0-9._~+/-]{20,4000}={0,2})(?![A-Za-z0-9._~+/-])", "bearer", True),
    ("authorization_header", "authorization[\"']?[ \t]{0,3}[:=,][ \t]{0,3}[\"']?(?:token|apikey|api-key|key|ssws|bot|genie-?key|splunk)[ =]{1,2}[a-z0-9._~+/:-]{16}",
     r"authorization[\"']?\s{0,3}[:=,]\s{0,3}[\"']?(?:token|apikey|api-key|key|ssws|bot|genie-?key|splunk)[ =]{1,2}(?P<value>[A-Za-z0-9._~+/:-]{16,4000}={0,2})", "bearer", True),
    ("authorization_header", "basic[ \t]{1,3}[a-z0-9+/_-]{6}", r"basic\s{1,3}(?P<value>[A-Za-z0-9+/_-]{6,400}={0,2})(?![A-Za-z0-9+/=_-])", "basic", True),
    ("password", "_auth[ ]?=[ ]?[a-z0-9+/]{6}", r"_auth ?= ?(?P<value>[A-Za-z0-9+/]{6,400}={0,2})", "basic", True),
    ("npm_token", "_authtoken[ ]?=[ ]?[a-z0-9]{6}", rf"_authtoken ?= ?(?P<value>{_UUID}|[A-Za-z0-9+/_-]{{20,80}}={{0,2}})", "", True),
    ("password", "sshpass[ ]{1,3}-p[ ]?['\"]?[^\\s'\"]{4}", rf"sshpass\s+-p ?{_ARG}", "real", True),
    ("password", "redis-cli[ ][^\\n]*?-a[ ][^\\s]{4}", rf"redis-cli\b[^\n]{{0,80}}?\s-a {_ARG}", "real", True),
    ("password", "curl[ ][^\\n]*?(?:-u|--user|--proxy-user)[ =]*['\"]?[^\\s:'\"]+:[^\\s]{4}", rf"curl\b[^\n]{{0,120}}?\s(?:-u|--user|--proxy-user)[ =]{{0,3}}['\"]?[^\s:'\"]{{1,60}}:{_ARG}", "real", True),
    ("password", "(?:l?ftp|smbclient|https?|xh)[ ][^\\n]*?-[ua][ ]['\"]?[^\\s%,:'\"]+[%,:][^\\s]{4}", rf"(?:l?ftp|smbclient|https?|xh) (?:[^\n]{{0,120}}? )?-[ua] ['\"]?[^\s%,:'\"]{{1,60}}[%,:]{_ARG}", "strong", True),
    ("password", "(?:7za?|rdesktop|psexec|(?:un)?zip|bcp)(?:\\.exe)?(?:[ ][^\\n]*?)?[ ]-p[ ]?['\"]?[^\\s'\"]{4}", rf"(?:(?:7za?|rdesktop|psexec)(?:\.exe)? (?:[^\n]{{0,120}}? )?-p|(?:(?:un)?zip|bcp) (?:[^\n]{{0,120}}? )?(?-i:-P)) ?{_ARG}", "strong", True),
    ("password", "freerdp[^\\n]*?/p:[^\\s]{4}", rf"freerdp[^\n]{{0,120}}? /p:{_ARG}", "strong", True),
    ("password", "(?:wpa_passphrase|nmcli)[ ][^\\n]*?[^\\s]{8}", rf"(?:wpa_passphrase (?:\"[^\"\n]{{1,40}}\"|\S{{1,40}})|nmcli [^\n]{{0,120}}? password) {_ARG}", "strong", True),
    ("password", "-(?:[a-z]+-){0,3}(?:password|passwd|passphrase|pass|pwd|storepass|keypass|[a-z]+storepass)[ =]+['\"]?[^\\s'\"]{4}", rf"(?<!\w)(?<!\w-)-{{1,2}}(?:{_WORD_NAMES})[ =]{{1,3}}{_ARG}", "strong", True),
    ("secret", "-(?:[a-z]+[_-]){0,3}(?:token|secret|key|apikey)[ =]+['\"]?[a-z0-9+/_.=~-]{16}", rf"(?<!\w)(?<!\w-)-{{1,2}}(?:{_KEY_NAMES})[ =]{{1,3}}['\"]?(?P<value>[A-Za-z0-9+/_.=~-]{{16,4000}})", "token", True),
    ("password", "machine[ \t]+[^\\s|]+[ \t]*(?:\\n|[ \t]login[ \t])|default[ \t]+login[ \t]", r"(?:machine\s{1,9}\S{1,100}|default)\s{1,20}login\s{1,9}\S{1,100}\s{1,20}(?:account\s{1,9}\S{1,60}\s{1,20})?password\s{1,9}(?P<value>[^\s\"'`]{4,1000})", "strong", True),
    ("private_key", "(?:client-key-data|tls\\.key)[\"']?:[ \t]*[\"']?[a-z0-9+/]{40}", r"(?:client-key-data|tls\.key)[\"']?:\s{0,9}[\"']?(?P<value>[A-Za-z0-9+/]{40,20000}={0,2})", "", True),
    ("password", "variable[ ]+\"[^\"\\s]*(?:password|passwd|secret|token|api_key)", r"variable {1,3}\"[^\"\s]{1,80}\" {0,3}\{[^{}]{0,400}?default\s{0,9}=\s{0,9}\"(?P<value>[^\"\n$]{4,400})\"", "strong", True),
    ("password", "(?:mysql|mariadb)[^\\n]*?[ ]-p['\"]?[^\\s'\"]{4}", rf"(?:mysql\w*|mariadb)\b[^\n]{{0,80}}?\s-p{_ARG}", "real", True),
    ("password", "(?:docker|podman|helm registry|az)[ ]login[ ][^\\n]*?-p[ ][^\\s]{4}", rf"login\b[^\n]{{0,100}}?\s-p {_ARG}".replace("login", r"(?:docker|podman|helm registry|az) login", 1), "real", True),
    ("password", "(?:ldap|sqlcmd|mongo)[^\\n]*?[ ]-[wp][ ]?['\"]?[^\\s'\"]{4}", rf"(?:ldap\w*|sqlcmd|mongo\w*)\b[^\n]{{0,120}}?\s-[wp] ?{_ARG}", "real", True),
    ("password", "-pass(?:in|out)?[ ]['\"]?pass:[^\\s'\"]{4}", rf"-pass(?:in|out)? ['\"]?pass:{_ARG}", "real", True),
    ("password", "net use[ ][^\\n]*?[ ][^\\s/]+[ ]/user:", r"net use [^\n]{0,80}? (?P<value>[^\s/]{4,60}) /user:", "real", True),
    ("password", "[a-z0-9.*-]:(?:[0-9]{4,5}|\\*):[a-z_*][^\\s:]*:[a-z_*][^\\s:]*:[^\\s:\"'`]{4}",
     r"[\w.*-]:(?:\d{4,5}|\*):[a-z_*][^\s:]{0,62}:[a-z_*][^\s:]{0,62}:(?P<value>[^\s:\"'`]{4,100})(?=[\s\"'`]|$)", "real", True),
    ("password", "identified by[ ]{1,3}['\"][^'\"\\s]{4}", r"identified by\s+['\"](?P<value>[^'\"\s]{4,100})['\"]", "real", True),
    ("password", "htpasswd[ ]-[a-z]*b[a-z]*[ ][^\\s]", r"htpasswd -\w*b\w* \S+ \S+ (?P<value>\S{4,100})", "real", True),
    ("password", "\\|[ ]?(?:sudo )?chpasswd", r"[^\s:'\"]{1,40}:(?P<value>[^\s'\"]{4,60})['\"]? ?\| ?(?:sudo )?chpasswd", "real", True),
    ("password", "convertto-securestring[ ][^\\n]*?[\"'][^\\s\"'$]{4}", r"convertto-securestring\s+(?:-\w+\s+){0,3}[\"'](?P<value>[^\s\"'$]{4,100})[\"']", "real", True),
)  # fmt: skip
