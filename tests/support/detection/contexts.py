# ruff: noqa: E501 - a context is one template
"""Contexts of values: configuration, code, shells, logs, tables, chat and notes.

`{v}` is the value, and `{k}` is the name of the value in a configuration. Doubled braces stand for single ones.
"""

from __future__ import annotations

NAMED = {
    "env": "APP_ENV=production\n{k}={v}\nPORT=8080\n",
    "env quoted": '# copied from the old host\n{k}="{v}"\nLOG_LEVEL=info\n',
    "env single quoted": "{k}='{v}'\nTZ=Europe/Berlin\n",
    "yaml": "service:\n  region: eu-west-1\n  {k}: {v}\n  replicas: 3\n",
    "yaml quoted": 'service:\n  {k}: "{v}"\n  timeout: 30s\n',
    "yaml list": 'env:\n  - name: {k}\n    value: {v}\n  - name: PORT\n    value: "8080"\n',
    "compose": "services:\n  web:\n    image: app:3\n    environment:\n      - {k}={v}\n      - DEBUG=0\n",
    "json": '{{\n  "host": "db-1",\n  "{k}": "{v}",\n  "retries": 3\n}}\n',
    "json compact": '{{"user":"svc","{k}":"{v}","ok":true}}',
    "toml": '[service]\nurl = "https://api.example.com"\n{k} = "{v}"\nretries = 2\n',
    "ini": "[default]\nregion = eu-central-1\n{k} = {v}\noutput = json\n",
    "properties": "app.name=billing\n{k}={v}\napp.port=9000\n",
    "hcl": 'variable "stage" {{\n  default = "prod"\n}}\nlocals {{\n  {k} = "{v}"\n}}\n',
    "dockerfile": 'FROM python:3.12-slim\nENV {k}={v}\nCMD ["python", "-m", "app"]\n',
    "docker run": "docker run --rm -d -p 80:8080 -e {k}={v} registry.example.com/app:latest\n",
    "kubectl": "kubectl create secret generic app --from-literal={k}={v} -n prod\n",
    "export": "$ cd ~/work/app\n$ export {k}={v}\n$ ./deploy.sh --stage prod\n",
    "history": "  501  git pull\n  502  {k}={v} make deploy\n  503  tail -f deploy.log\n",
    "powershell": 'PS C:\\app> $env:{k} = "{v}"\nPS C:\\app> .\\run.ps1\n',
    "python": 'import os\n\n{k} = "{v}"\nclient = Client({k}, timeout=30)\n',
    "python environ": 'os.environ["{k}"] = "{v}"\nmain()\n',
    "python keyword": "session = connect(host='db-1', {k}='{v}', port=5432)\n",
    "javascript": "const config = {{\n  {k}: '{v}',\n  region: 'eu',\n}};\n",
    "typescript": 'export const {k} = "{v}";\nexport const retries = 3;\n',
    "go": 'package main\n\nconst {k} = "{v}"\n\nfunc main() {{ run({k}) }}\n',
    "java": 'public final class Config {{\n    static final String {k} = "{v}";\n}}\n',
    "ruby": "ENV['{k}'] = '{v}'\nApp.start\n",
    "php": "<?php\ndefine('{k}', '{v}');\nrequire 'app.php';\n",
    "log": "2026-03-11 10:03:17,221 DEBUG [boot] effective settings {k}={v} host=db-1 pool=10\n",
    "note": "## Staging\n\n- host: `stage-3.example.com`\n- `{k}`: `{v}`\n- owner: platform team\n",
    "code span": "Set `{k}={v}` in the job settings and run it again.\n",
    "table": "| variable | value |\n|---|---|\n| {k} | {v} |\n| PORT | 8080 |\n",
    "actions": "jobs:\n  deploy:\n    runs-on: ubuntu-latest\n    env:\n      {k}: {v}\n    steps: []\n",
    "xml": '<configuration>\n  <add key="{k}" value="{v}" />\n  <add key="Stage" value="prod" />\n</configuration>\n',
    "chat": "<anna> what do I put into .env?\n<bob> {k}={v}\n<anna> thanks!\n",
    "diff": "@@ -3,3 +3,3 @@\n APP_ENV=production\n-DEBUG=1\n+{k}={v}\n PORT=8080\n",
}

BARE = {
    "prose en": "We rotated it on Monday. The new one is {v} and the old one stops working tonight.\n",
    "prose de": "Bitte ab sofort {v} verwenden, der alte läuft am Freitag ab.\n",
    "prose fr": "Pour le déploiement il faut utiliser « {v} » à partir de demain.\n",
    "prose es": "Desde hoy usamos {v} en producción; el anterior ya no sirve.\n",
    "prose ja": "本番環境では{v}を使ってください。\n",
    "prose zh": "生产环境请使用 {v} ，旧的已经停用。\n",
    "chat": "<bob> can you try with this one\n<bob> {v}\n<anna> works\n",
    "email": "Hi Sam,\n\nas discussed on the phone:\n\n    {v}\n\nBest\nKim\n",
    "list": "- deploy user: ci-bot\n- value: **{v}**\n- expires: 2026-12-01\n",
    "header": "GET /v1/items HTTP/1.1\nHost: api.example.com\nX-Auth: {v}\nAccept: */*\n",
    "bearer": 'curl -sS -H "Authorization: Bearer {v}" https://api.example.com/v1/me\n',
    "query": "https://api.example.com/v1/items?auth={v}&page=2\n",
    "python argument": 'client = Client("{v}", timeout=30)\nclient.sync()\n',
    "javascript call": "const api = new Api('{v}');\nawait api.login();\n",
    "log": "2026-03-11T10:03:17Z INFO [worker-3] request sent with {v} to upstream in 31 ms\n",
    "traceback": 'Traceback (most recent call last):\n  File "run.py", line 3, in <module>\nValueError: not valid: {v}\n',
    "sql": "INSERT INTO settings (name, value) VALUES ('deploy', '{v}');\n",
    "csv": "id,name,value\n1,deploy,{v}\n2,region,eu\n",
    "table": "| name | value |\n|------|-------|\n| deploy | `{v}` |\n",
    "json string": '{{"text": "first line\\n{v}\\nlast line"}}\n',
    "html": '<input type="hidden" name="auth" value="{v}">\n',
    "shell argument": "./sync.sh --stage prod --auth {v} --verbose\n",
    "echo": "echo {v} | tool login --stdin\n",
    "comment": "def run():\n    pass  # was {v} until May\n",
    "yaml item": "credentials:\n  - {v}\n  - none\n",
    "todo": "TODO: revoke {v} (leaked in build 311)\n",
}

KEY_FILE = {
    "alone": "{v}\n",
    "note": "Key of the old build host, in case we need it again:\n\n```\n{v}\n```\n\nUser is `deploy`.\n",
    "chat": "<bob> here it is\n{v}\n<anna> got it\n",
    "heredoc": "cat > ~/.ssh/id_deploy <<'EOF'\n{v}\nEOF\nchmod 600 ~/.ssh/id_deploy\n",
    "python": 'KEY = """{v}"""\nsign(KEY, data)\n',
    "env quoted": 'DEPLOY_KEY="{v}"\nSTAGE=prod\n',
    "yaml": "deploy:\n  user: ci\n  key: |\n{v:indented}\n  port: 22\n",
    "k8s": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: deploy\nstringData:\n  key: |\n{v:indented}\n",
    "json": '{{"user": "ci", "key": "{v:escaped}", "port": 22}}\n',
    "env escaped": 'DEPLOY_KEY="{v:escaped}"\nSTAGE=prod\n',
}

CARD = {
    "prose en": "Please charge the hotel to my Visa or Mastercard {v}, valid until 04/29.\n",
    "prose de": "Die Kreditkarte hat die Nummer {v}, gültig bis 04/29.\n",
    "prose fr": "Carte bancaire : {v}, expire fin 04/29.\n",
    "form": "Name: Anna Berg\nCard number: {v}\nExpiry: 04/29\nCVC: 123\n",
    "json": '{{"holder": "Anna Berg", "card_number": "{v}", "exp": "04/29"}}\n',
    "csv": "holder,card_number,exp\nAnna Berg,{v},04/29\n",
    "table": "| holder | card | exp |\n|---|---|---|\n| A. Berg | {v} | 04/29 |\n",
    "log": "2026-03-11 10:03:17 ERROR charge declined card={v} amount=49.90 EUR\n",
    "chat": "<kim> which card should I use?\n<sam> {v} exp 04/29\n",
    "list": "- company card: {v}\n- valid until: 04/29\n",
}

IBAN = {
    "label": "IBAN: {v}\nBIC: on request\n",
    "prose de": "Bitte überweisen Sie den Betrag auf {v} bis zum 15. des Monats.\n",
    "prose en": "Her account is {v}, please pay the rent there.\n",
    "prose fr": "Virement à faire sur le compte {v} avant vendredi.\n",
    "json": '{{"name": "Anna Berg", "iban": "{v}"}}\n',
    "csv": "name,iban,amount\nAnna Berg,{v},120.00\n",
    "table": "| name | account |\n|---|---|\n| Anna Berg | {v} |\n",
    "invoice": "Total due: 1,240.00\nBank: First Bank\nAccount: {v}\nReference: 2026-118\n",
    "list": "- rent: {v}\n- due: 3rd of the month\n",
    "chat": "<kim> where do I send it?\n<sam> {v}\n",
}

SSN = {
    "label": "Name: Dana Cole\nSSN: {v}\nState: OH\n",
    "prose": "Her social security number is {v}, she needs it for the form.\n",
    "json": '{{"name": "Dana Cole", "ssn": "{v}"}}\n',
    "csv": "name,ssn,state\nDana Cole,{v},OH\n",
    "table": "| employee | SSN |\n|---|---|\n| Dana Cole | {v} |\n",
    "chat": "<hr> your SSN please\n<dana> {v}\n",
    "list": "- Social Security Number: {v}\n- date of birth: on file\n",
    "log": "2026-03-11 10:03:17 DEBUG applicant ssn={v} verified=true\n",
}

SEED = {
    "label": "seed phrase: {v}\n",
    "prose": "My wallet recovery phrase is {v} and nobody else has it.\n",
    "code": 'const mnemonic = "{v}";\nconst wallet = Wallet.fromPhrase(mnemonic);\n',
    "json": '{{"wallet": "main", "mnemonic": "{v}"}}\n',
    "block": "Backup of the wallet (recovery words):\n\n{v}\n\nKeep offline.\n",
    "env": 'MNEMONIC="{v}"\nCHAIN_ID=1\n',
    "chat": "<kim> what is the seed phrase of the test wallet?\n<sam> {v}\n",
    "list": "- wallet: savings\n- seed: {v}\n",
}

CONNECTION = {
    "env": "APP_ENV=production\nDATABASE_URL={v}\nPORT=8080\n",
    "env quoted": 'DATABASE_URL="{v}"\n',
    "yaml": "storage:\n  url: {v}\n  pool: 10\n",
    "json": '{{"storage": {{"url": "{v}", "pool": 10}}}}\n',
    "toml": '[storage]\nurl = "{v}"\npool = 10\n',
    "python": 'engine = create_engine("{v}", pool_size=10)\n',
    "go": 'db, err := sql.Open("main", "{v}")\n',
    "note": "Staging is at `{v}` now, use it read-only.\n",
    "prose": "I could reach it with {v} from my laptop.\n",
    "log": "2026-03-11 10:03:17 INFO connecting to {v} (attempt 2)\n",
    "chat": "<anna> which one?\n<bob> {v}\n",
    "shell": "  88  dump --to /backup '{v}'\n  89  ls -l /backup\n",
    "compose": "services:\n  api:\n    environment:\n      STORAGE_URL: {v}\n",
    "xml": '<add name="Main" connectionString="{v}" />\n',
}

OBFUSCATED = {
    "prose": "The new one is {v} from today on.\n",
    "list": "- owner: platform\n- value: {v}\n",
    "chat": "<bob> this one:\n<bob> {v}\n<anna> thanks\n",
    "line": "{v}\n",
    "note": "## Access\n\nUse this:\n\n{v}\n\nAsk Kim if it fails.\n",
    "named": "service:\n  token: {v}\n",
}

GROUPS = {
    "named": NAMED,
    "bare": NAMED | {f"bare {name}": text for name, text in BARE.items()},
    "key file": KEY_FILE,
    "card": CARD,
    "iban": IBAN,
    "ssn": SSN,
    "seed": SEED,
    "connection": CONNECTION,
    "obfuscated": OBFUSCATED,
    "lines": {"own": "{v}"},
}
