"""Word lists: words for passwords and secrets in several languages, and ordinary words that can follow them."""

# ruff: noqa: E501 - a pattern or a list is a line

from __future__ import annotations

import re

# In lower case.
PASSWORD_WORDS = (
    "password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "passwört", "mot de passe", "mots de passe",
    "motdepasse", "mot_de_passe", "mdp", "pwd", "pass", "pw", "psk", "パスワード", "暗証番号", "パスフレーズ", "pin code",
    "密码", "密碼", "口令", "contraseña", "contrasena", "clave de acceso", "clave wifi", "clave del wifi", "clave de la wifi",
    "clave del router", "clave de la red", "senha", "wachtwoord", "psw", "pass phrase",
    "pass code", "wifi key", "wi-fi key", "wlan key", "wlan-key", "wpa key", "network key", "wlan-schlüssel", "wlan-code",
    "netzwerkschlüssel", "zugangscode", "geheimwort", "codewort", "losungswort", "code wifi", "code wi-fi", "code du wifi",
    "wlan schlüssel", "clé wifi", "clé wi-fi", "clé du wifi", "clef wifi", "clé wpa", "code d'accès", "code d’accès", "phrase secrète",
    "phrase de passe", "shared secret", "preshared key", "pre-shared key", "gemeinsames geheimnis", "secret partagé",
    "パスコード", "合言葉", "暗号化キー", "パス", "通行码", "通行碼", "授权码", "授權碼", "共享密钥", "共享金鑰", "пароль",
    "пароля", "hasło", "lösenord", "adgangskode", "salasana", "parola d'ordine", "비밀번호", "암호",
)  # fmt: skip
SECRET_WORDS = (
    "secret", "token", "api key", "api-key", "api_key", "apikey", "api-schlüssel", "pat", "clé api", "clé d'api",
    "clé d’api", "clé secrète", "clé d'accès", "access key", "access-key", "access_key", "accesskey", "auth key",
    "auth_key", "authkey", "private_key", "privatekey", "private key", "secret key", "signing_key", "signing key",
    "encryption_key", "encryption key", "encryptionkey", "master_key", "master key", "masterkey", "account_key",
    "accountkey", "shared_key", "sharedkey", "shared key", "service_key", "admin_key", "app_key", "app key", "appkey",
    "license_key", "licence_key", "license key", "deploy_key", "storage_key", "credential", "jeton", "geheimnis",
    "zugriffsschlüssel", "zugangsschlüssel", "clef api", "clé de l'api", "clé de l’api", "clef secrète", "webhook_key",
    "clé de chiffrement", "clé privée", "clé d’accès", "認証キー", "权杖", "權杖", "密匙", "apiキー", "api キー", "clave api",
    "アクセスキー", "シークレット", "トークン", "秘密鍵", "密钥", "秘钥", "密鑰", "令牌", "金鑰", "ключ api", "токен", "llave api",
)  # fmt: skip
SHORT_WORDS = frozenset({"pass", "pw", "psw", "pwd", "psk", "mdp", "pat"})  # these also occur inside other words
# Names, in lower case, of random values that are public or short-lived: `csrf_token`, `next_page_token`, `public_key`.
NOT_SECRET = re.compile(
    r"(?:csrf|xsrf|page|next|continuation|sync|public|publishable|anon|pubkey|partition|primary|foreign|cache|sort|row|dedup"
    r"|idempot\w*|site|object|file|routing|s3|cancel|cancellation|stop|start|end|special|max|min|js|unk|pad|eos|bos|mask"
    r"|lex|separator|num|total|input|output|prompt|completion|host|known)[ _-]?(?:api[ _-]?)?(?:token|key|secret)|minipass|tokens$|tokeniz|bypass"
    r"|(?:range|shard|surrogate|natural|lookup|translation|secondary|candidate|composite|unique|clustering|bucket|dedupe|issue|record|entity|item)[ _-]?key"
    r"|(?:resume|change|concurrency|version|lock|delta|fencing|pagination|paging|checkpoint|ack|client[ _-]?request|client|upload|snapshot|state|etag|cursor)[ _-]?token|opaquelocktoken"
    r"|compass|passage|passive|passing|passed|key ?(?:id|name|word|board|s\b)|access_key_id"
)

# Suffixes of names that name a property of a password and not the password itself, such as `password_policy`.
_NOT_A_VALUE_TEXT = """
hash hashed hashes hasher hashing file files filename path paths dir length len min max minimum maximum policy
policies url uri urls link endpoint host server type types name names id ids field fields label placeholder
reset required count counts limit limits expiry expires expired expiration expire ttl age regex pattern rule
rules validator validators validation manager store stores storage provider providers ref refs arn version
versions algorithm strength hint prompt error errors message messages title text input inputs digest salt
changed change lifetime duration encoder encoding format size index usage cost price budget bucket budgets
issuer audience scope scopes last used seen needed class cls func function method handler callback enabled
disabled less free protected based auth authentication generator complexity history attempts rotation mode
kind mgr status state exists template env var variable variables column table map list set command cmd script
permission permissions role roles app icon color style css button form page screen view dialog key_id keyid
keyref secretref in out at date time timestamp created updated
"""
NOT_A_VALUE = frozenset(_NOT_A_VALUE_TEXT.split())

# Words that are not values: states, types, placeholders.
_NOT_VALUES_TEXT = """
none null nil true false yes no on off na n/a tbd todo unset undefined default defaults empty blank missing
required optional mandatory forbidden hidden visible unknown invalid incorrect wrong correct valid expired
disabled enabled string str text varchar char bytes byte int integer number bool boolean object array any dict
list map option optionalstring secret secrets password passwords passwd passphrase pass pwd pw mypassword
my_password mypass mysecret yourpassword newpassword oldpassword userpassword user_password dbpassword token
tokens key keys apikey credentials credential user username login admin test tests testing foo bar baz qux
foobar example examples sample demo dummy fake changeme change-me change_me changethis changeit replaceme
replace-me replace_me replace_with insert placeholder redacted removed masked censored secret123 password123?
todo fixme here value values input prompt ask manual manually generated random same unchanged changed reset
forgot forgotten hash hashed encrypted plaintext plain bcrypt argon2 scrypt md5 sha1 sha256 sha512 pbkdf2
base64 utf-8 utf8 ascii hex json yaml vault keychain keyring keepass bitwarden 1password lastpass env
environment stdin stdout stderr file path url stored kept see use using set not never always only must should
may can will is are was the a an and or of in for to from by with on at as it this that your our my their his
her its new old current next previous first last other strong weak good bad long short ok fine safe unsafe
important private public internal external shared personal common basic bearer digest negotiate oauth oauth2
jwt saml ldap kerberos self this cls args kwargs config settings options params data body request response
event props state context ctx erforderlich notwendig unbekannt falsch richtig leer kein keine keins siehe
geheim geändert vergessen abgelaufen gültig ungültig sicher requis obligatoire oublié inconnu aucun aucune
vide voir expiré incorrecte invalide secrète error errors failed failure success warning info debug email
e-mail mail phone name id uuid guid digit digits letters characters chars length minimum maximum mínimo
rotation rotated protected authentication authorization credentials const let var function return async await
export import type interface undefined nan void static final
"""
NOT_VALUES = frozenset(_NOT_VALUES_TEXT.split())
_STANDS_FOR = re.compile(
    r"""^(?:[<\[{(].*[>\]})]|\$\{.*|\$[A-Za-z_][\w:]*(?:->.*|\[.*|\.\w.*)?|%[sdr]|%\(.*|%\w+%|%\{.*|\{\{.*|[*xX•·.#_?-]+|\\?[$@]\(.*|<.*|.*\{\{.*|.*\$\{.*|.*\}\}.*|.*<[\w -]+>.*|\.\.\..*"""
    r"""|.*\.\.\.|…+|.*\[[^\]]*[a-zA-Z0-9]-[a-zA-Z0-9][^\]]*\].*|!vault|!ref.*|!sub.*|ref\+.*|op://.*|&(?:#\w+|lt|gt|amp|quot|nbsp);?.*|vault:.*|@microsoft\.keyvault.*|ssm:.*|secret:.*|arn:.*|env[:.].*|file:.*|enc\[.*)$"""
    r"""|example|placeholder|change[-_ ]?(?:me|it|this)(?!\d\d)|replace[-_ ]?(?:me|with|this)|redacted|(?<![a-z])your[-_ ]?|(?<![a-z])my[-_](?:secret|pass|api|token|key)|(?-i:xxxx|XXXX)|\*\*\*|•••|dummy|(?<![a-z])insert[-_ ]|goes[-_ ]here|_here$|-here$|(?<![a-z])(?:todo|fixme)(?![a-z-])|(?<![a-z])some[-_](?:secret|pass|key|token|value)""",
    re.IGNORECASE | re.DOTALL,
)


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder such as `<password>`, `${DB_PASSWORD}`, `xxxx`, `changeme`, `secret`."""
    plain = value.strip().strip("\"'`").lower()
    return not plain or plain in NOT_VALUES or len(set(plain)) == 1 or _STANDS_FOR.search(value) is not None
