"""Sentences and lines with a password, for kinds of values that only the text around the password identifies.

`{v}` is a password, `{w}` a second password, `{t}` a random token, and `{b}` a password in base64.
"""

from __future__ import annotations

PROSE = {
    "en": (
        "The password is {v}.",
        "The password for the guest wifi is {v}, the network is called Lobby.",
        "I changed the admin password to {v} last night.",
        "my new password is now {v}, please note it somewhere",
        "You can log in as bob with the password {v} until Friday.",
        'The passphrase of the backup disk is "{v}".',
        "Kim says the root password on stage-3 is {v} and that it will change soon.",
        "Use {v} as the password when it asks.",
        "User prefers to log in with anna / password {v} on the test system.",
        "Password for the customer portal (asked twice): {v}",
        "The Wi-Fi key at the office is {v}.",
        "the pin for the alarm is unknown but the pw is {v}",
    ),
    "de": (
        "Das Passwort lautet {v}.",
        "Das Passwort für den Testserver ist {v}, bitte nicht weitergeben.",
        "Ich habe das Kennwort gestern auf {v} geändert.",
        "Mein WLAN-Passwort ist „{v}“.",
        "Anmeldung als admin mit dem Passwort {v} klappt.",
        "Neues Passwort seit Montag: {v}",
        "Zugang zum Kundenportal: Benutzer anna, Passwort {v}",
        "Das Root-Kennwort der Datenbank heißt jetzt {v}.",
        "Nimm {v} als Passwort, das alte gilt nicht mehr.",
        "Der WLAN-Schlüssel im Büro ist {v}.",
    ),
    "fr": (
        "Le mot de passe est {v}.",
        "Le mot de passe du serveur de test est « {v} ».",
        "J'ai changé le mot de passe hier, c'est maintenant {v}.",
        "le mot de passe pour la base est {v}, ne pas partager",
        "Connecte-toi en admin avec le mot de passe {v} avant vendredi.",
        "Nouveau mot de passe depuis lundi : {v}",
        "Portail client : identifiant anna, mot de passe {v}",
        "La clé wifi du bureau est {v}.",
        "mdp du compte de secours : {v}",
        "Utilise {v} comme mot de passe.",
    ),
    "es": (
        "La contraseña es {v}.",
        "La contraseña del servidor de pruebas es {v}, no la compartas.",
        "Ayer cambié la contraseña a {v}.",
        "Mi nueva contraseña es «{v}».",
        "Entra como admin con la contraseña {v} antes del viernes.",
        "Nueva contraseña desde el lunes: {v}",
        "Portal de clientes: usuario anna, contraseña {v}",
        "La clave del wifi de la oficina es {v}.",
        "contraseña de la cuenta de reserva: {v}",
        "Usa {v} como contraseña.",
    ),
    "ja": (
        "パスワードは{v}です。",
        "テストサーバーのパスワードは「{v}」です。共有しないでください。",
        "昨日パスワードを{v}に変更しました。",
        "新しいパスワード：{v}",
        "ユーザー名はanna、パスワードは {v} です。",
        "Wi-Fiのパスワードは{v}になりました。",
        "管理者のパスワード: {v}",
        "データベースのパスワードは、{v}です。",
        "{v}をパスワードとして使ってください。",
        "暗証フレーズ（パスワード）は {v} 。",
    ),
    "zh": (
        "密码是{v}。",
        "测试服务器的密码是「{v}」,请不要外传。",
        "我昨天把密码改成{v}了。",
        "新密码：{v}",
        "用户名是 anna，密码为 {v}。",
        "办公室无线网络的密码是 {v} 。",
        "管理员密码: {v}",
        "数据库的密码现在是{v}，请更新。",
        "請用 {v} 作為密碼。",
        "備份硬碟的密碼：{v}",
    ),
}

LINES = {
    "password-option": (
        "mysqldump --user=root --password={v} app > dump.sql",
        "tool login --username bob --password {v} --quiet",
        "helm install db ./db --set auth.password={v} -n prod",
        "keytool -list -keystore app.jks -storepass {v}",
    ),
    "password-short-option": (
        "mysql -u root -p{v} -h db-1 app",
        "sshpass -p '{v}' ssh deploy@stage-3.example.com",
        "redis-cli -h cache-1 -a {v} ping",
        "docker login -u ci -p {v} registry.example.com",
    ),
    "password-variable-before-command": (
        "PGPASSWORD={v} psql -h db-1 -U app app",
        "MYSQL_PWD={v} mysql -u app app",
        "RESTIC_PASSWORD={v} restic -r /backup snapshots",
    ),
    "curl-user": (
        "curl -u admin:{v} https://api.example.com/v1/status",
        "curl --user 'svc:{v}' -X POST https://ci.example.com/job/7/build",
        "wget --user=bob --password={v} https://files.example.com/a.tgz",
    ),
    "netrc": (
        "machine api.example.com login bob password {v}",
        "machine git.example.com\n  login bob\n  password {v}\n",
    ),
    "pgpass": ("db-1.example.com:5432:app:bob:{v}", "# ~/.pgpass\nlocalhost:5432:*:postgres:{v}\n"),
    "sql-user": (
        "ALTER USER app WITH PASSWORD '{v}';",
        "CREATE USER 'app'@'%' IDENTIFIED BY '{v}';",
        "CREATE ROLE reader LOGIN PASSWORD '{v}' VALID UNTIL '2027-01-01';",
        "ALTER LOGIN sa WITH PASSWORD = '{v}';",
    ),
    "wifi": (
        'network={{\n  ssid="Lobby"\n  psk="{v}"\n}}\n',
        "[wifi-security]\nkey-mgmt=wpa-psk\npsk={v}\n",
    ),
    "ansible": (
        "[web]\nweb-1 ansible_user=deploy ansible_ssh_pass={v}\n",
        "all:\n  vars:\n    ansible_user: deploy\n    ansible_become_password: {v}\n",
    ),
    "npmrc": (
        "//registry.example.com/:_authToken={t}\nalways-auth=true\n",
        "registry=https://registry.example.com/\n//registry.example.com/:_password={b}\n",
    ),
    "pypirc": ("[distutils]\nindex-servers = inner\n\n[inner]\nusername = ci\npassword = {v}\n",),
    "maven": ("<server>\n  <id>inner</id>\n  <username>ci</username>\n  <password>{v}</password>\n</server>\n",),
    "query-password": (
        "https://portal.example.com/login?user=bob&password={v}&next=%2Fhome",
        "GET /api/login?username=anna&passwd={v} HTTP/1.1",
    ),
    "login-pair": (
        "Login: anna\nPassword: {v}\n",
        "user: bob\npw: {v}\nhost: stage-3\n",
        "Benutzer: anna\nPasswort: {v}\n",
        "Identifiant : anna\nMot de passe : {v}\n",
        "Usuario: anna\nContraseña: {v}\n",
        "ユーザー：anna\nパスワード：{v}\n",
        "用户名：anna\n密码：{v}\n",
    ),
    "next-line": (
        "Password:\n{v}\n\nUsername:\nanna\n",
        "### Admin password\n\n{v}\n\n### Host\n\nstage-3\n",
        "Passwort:\n  {v}\n",
        "portal password\n\n    {v}\n",
    ),
    "table-password": (
        "| host | user | password |\n|------|------|----------|\n| db-1 | app | {v} |\n| db-2 | ro | {w} |\n",
        "| service | login | pw |\n|:--|:--|:--|\n| wiki | kim | `{v}` |\n| mail | sam | `{w}` |\n",
        "host  user  password\ndb-1  app   {v}\ndb-2  ro    {w}\n",
    ),
    "csv-password": (
        "name,password\nanna,{v}\nbob,{w}\n",
        "host;user;password;port\ndb-1;app;{v};5432\ndb-2;ro;{w};5432\n",
        "url,username,password,note\nhttps://a.example.com,anna,{v},\nhttps://b.example.com,anna,{w},old\n",
        "user\tpasswd\tgroup\nanna\t{v}\tstaff\nbob\t{w}\tadmin\n",
    ),
    "sql-insert": (
        "INSERT INTO users (name, password, age) VALUES ('bob', '{v}', 30);",
        "UPDATE accounts SET password = '{v}' WHERE id = 7;",
    ),
}
