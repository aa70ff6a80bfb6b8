# ruff: noqa: E501 - a snippet is one template
"""Generated source code and configuration that handles secrets but contains none."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from support.detection.draw import of, word


def _names(rng: Random) -> dict[str, str]:
    name = word(rng)
    return {"n": name, "N": name.upper(), "C": name.capitalize(), "o": word(rng), "h": of(rng, "hex", 40)}


def _one_of(*templates: str) -> Callable[[Random], str]:
    """Return a generator function that joins all templates in random order, so that consecutive parts differ."""

    def make(rng: Random) -> str:
        chosen = list(templates)
        rng.shuffle(chosen)
        return "".join(template % _names(rng) for template in chosen)

    return make


PYTHON = _one_of(
    "def %(n)s_login(user: str, password: str | None = None) -> bool:\n    password = password or getpass()\n"
    "    return check(user, password=password, token=self._token)\n\n",
    "token = os.environ['%(N)s_TOKEN']\napi_key = settings.%(N)s_API_KEY\nsecret = load_secret('%(n)s')\n\n",
    "password = fields.Char(required=True, help='Password of the %(n)s account')\n",
    "parser.add_argument('--password', metavar='PASSWORD', help='password for %(n)s, read from the terminal')\n",
    "class %(C)sToken(BaseModel):\n    token: str = Field(default_factory=new_token)\n    secret_key: SecretStr\n\n",
    "self.password = hash_password(%(n)s.password, salt=self.salt)\nkey = (%(n)s, %(o)s)\nself.key: bytes = key\n",
    "if password == confirm_password:\n    user.set_password(password)\nelse:\n    raise ValueError('passwords differ')\n",
    "PASSWORD_RESET_TIMEOUT = 3600\nTOKEN_URL = 'https://login.example.com/oauth2/token'\nAPI_KEY_NAME = 'x-api-key'\n",
)
JAVASCRIPT = _one_of(
    "const password = document.getElementById('%(n)s-password').value;\nif (!password) return showError('password');\n",
    "const token = await getToken({ scope: '%(n)s' });\nheaders.Authorization = `Bearer ${token}`;\n",
    "export const passwordRules = { minLength: 12, required: true, pattern: /[A-Z].*[0-9]/ };\n",
    "const { apiKey, secret = process.env.%(N)s_SECRET } = options;\n",
    "import { passport, secretKey } from './%(n)s';\nthis.accessToken = response.data.accessToken;\n",
    "labels: { password: 'Password', passwordRepeat: 'Repeat password', token: 'Access token' },\n",
    "type: 'password', autocomplete: 'current-password', placeholder: 'Your %(n)s password',\n",
)
COMPILED = _one_of(
    'private static final String PASSWORD_PROPERTY = "%(n)s.password";\nString password = config.getString(PASSWORD_PROPERTY);\n',
    'char *password = getenv("%(N)s_PASSWORD");\nif (password == NULL) password = prompt_password("Password: ");\n',
    'let token: String = std::env::var("%(N)s_TOKEN")?;\nlet secret = Secret::new(token);\n',
    'func (c *%(C)s) SetPassword(password string) error {\n\treturn c.store.Put("password", password)\n}\n',
    'public string Password { get; set; } = string.Empty;\nvar apiKey = Configuration["%(C)s:ApiKey"];\n',
    "static const uint8_t key[16] = { 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07 };\n",
    "#define PASSWORD_MAX 64\n#define TOKEN_KEYWORD_%(N)s 0x1f\nenum { TOK_PASSWORD = 3, TOK_SECRET };\n",
)
ENV_EXAMPLE = _one_of(
    "DB_PASSWORD=\nDB_USER=app\n",
    "API_KEY=<your-api-key>\nSECRET_KEY=changeme\n",
    "%(N)s_TOKEN=${%(N)s_TOKEN}\n%(N)s_PASSWORD=$(cat /run/secrets/%(n)s)\n",
    "SMTP_PASSWORD=xxxxxxxxxxxx\nJWT_SECRET=your_jwt_secret_here\n",
    "AWS_SECRET_ACCESS_KEY=YOUR_SECRET_KEY\nGITHUB_TOKEN=REPLACE_ME\n",
    "# password of %(n)s goes here\nADMIN_PASSWORD=********\n",
)
YAML = _one_of(
    "env:\n  - name: %(N)s_PASSWORD\n    valueFrom:\n      secretKeyRef:\n        name: %(n)s\n        key: password\n",
    "  with:\n    token: ${{ secrets.%(N)s_TOKEN }}\n    password: ${{ secrets.REGISTRY_PASSWORD }}\n",
    "auth:\n  password: {{ .Values.%(n)s.password | quote }}\n  existingSecret: %(n)s-credentials\n",
    "db_password: !vault |\n  see vault\napi_key: \"{{ lookup('env', '%(N)s_API_KEY') }}\"\n",
    "  password:\n    description: Password of the %(n)s user\n    required: true\n    type: string\n",
    "- uses: actions/checkout@%(h)s\n- uses: acme/%(n)s@v4\n",
)
TERRAFORM = _one_of(
    'variable "%(n)s_password" {\n  type      = string\n  sensitive = true\n}\n',
    'password = var.%(n)s_password\ntoken    = data.vault_generic_secret.%(n)s.data["token"]\n',
    'secret_id = aws_secretsmanager_secret.%(n)s.id\nkms_key = "alias/%(n)s"\n',
)
MARKUP = _one_of(
    '<label for="password">Password</label><input id="password" type="password" name="%(n)s_password" required>\n',
    '<a href="/%(n)s/reset-password?step=1">Forgot your password?</a>\n<meta name="csrf-token" content="">\n',
    "<p>Your password must be at least 12 characters. Password: never share it.</p>\n",
    '<property name="password" value="${%(n)s.password}"/>\n<password encrypted="false"/>\n',
)
SQL = _one_of(
    "CREATE TABLE %(n)s (id BIGINT, password VARCHAR(255) NOT NULL, token CHAR(64), secret BYTEA);\n",
    "SELECT password, token FROM %(n)s WHERE password IS NULL OR token = :token;\n",
    "ALTER TABLE %(n)s ADD COLUMN password_changed_at TIMESTAMP DEFAULT now();\n",
    "UPDATE %(n)s SET password = crypt($1, gen_salt('bf')) WHERE id = $2;\n",
)
DOCS = _one_of(
    "### `password`\n\nType: string. Default: none. The password for `%(n)s`.\n\n",
    "Connect with `postgresql://user:password@localhost:5432/%(n)s`, or set `DATABASE_URL`.\n\n",
    '```console\n$ export %(N)s_TOKEN=<token>\n$ curl -H "Authorization: Bearer $%(N)s_TOKEN" https://api.example.com\n```\n\n',
    "| option | default | meaning |\n|---|---|---|\n| password | none | password of the user |\n| token | unset | access token |\n\n",
    "- **secret**: name of the secret in the store\n- **key**: public key, see %(n)s\n- Token: required\n\n",
    "Use `--password-stdin` or `-p PASSWORD`. Short passwords are weak.\n\n",
    "See commit %(h)s and `sha256:%(h)s` for the password dialog.\n\n",
)


CODE: dict[str, Callable[[Random], str]] = {
    "python": PYTHON,
    "javascript": JAVASCRIPT,
    "compiled languages": COMPILED,
    "env example": ENV_EXAMPLE,
    "yaml": YAML,
    "terraform": TERRAFORM,
    "markup": MARKUP,
    "sql": SQL,
    "documentation": DOCS,
}
"""Generators by kind of document."""
