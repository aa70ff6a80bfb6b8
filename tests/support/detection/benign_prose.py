"""Generated prose in six languages that mentions passwords, cards and keys but contains none."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

EN = (
    "The password is wrong.",
    "The password of the staging server is in the vault.",
    "My password expires on Friday, remind me to change it.",
    "The user prefers to log in with a passkey and not with a password.",
    "We talked about password rotation and decided to do it every quarter.",
    "The token is refreshed automatically every 15 minutes.",
    "Her card was declined twice, she will pay by transfer.",
    "The secret is to let the dough rest overnight.",
    "The key is under the mat; the alarm code is known to Kim.",
    "Build 2026.03.11-4711 passed on all three platforms.",
    "Password: ask Kim in person.",
    "The meeting about the API key policy moved to 14:30.",
    "The new password must have twelve characters or more.",
    "Order 2026-118 has arrived, part 4711-22 is missing.",
)
DE = (
    "Das Passwort ist falsch.",
    "Das Passwort für den Testserver liegt im Tresor.",
    "Mein Kennwort läuft am Freitag ab.",
    "Der Schlüssel liegt unter der Matte.",
    "Wir haben über Passwortregeln gesprochen und nichts entschieden.",
    "Passwort: bitte bei Kim erfragen.",
    "Das Geheimnis ist, den Teig über Nacht ruhen zu lassen.",
    "Die Karte wurde abgelehnt, sie überweist den Betrag.",
    "Das neue Passwort muss mindestens zwölf Zeichen haben.",
    "Bestellung 2026-118 ist da, Teil 4711-22 fehlt.",
)
FR = (
    "Le mot de passe est incorrect.",
    "Le mot de passe du serveur se trouve dans le coffre.",
    "Mon mot de passe expire vendredi.",
    "La clé est sous le paillasson.",
    "Mot de passe : demander à Kim.",
    "Le secret est de laisser reposer la pâte toute la nuit.",
    "La carte a été refusée, elle paiera par virement.",
    "Le nouveau mot de passe doit compter douze caractères.",
    "Nous avons parlé des règles de mots de passe.",
)
ES = (
    "La contraseña es incorrecta.",
    "La contraseña del servidor está en la caja fuerte.",
    "Mi contraseña caduca el viernes.",
    "La llave está debajo del felpudo.",
    "Contraseña: preguntar a Kim.",
    "El secreto es dejar reposar la masa toda la noche.",
    "La nueva contraseña debe tener doce caracteres.",
    "Hablamos de la política de contraseñas y de tokens.",
    "La clave del éxito es la paciencia.",
)
JA = (
    "パスワードが間違っています。",
    "パスワードは金庫に保管してあります。",
    "パスワードは金曜日に期限が切れます。",
    "新しいパスワードは12文字以上にしてください。",
    "パスワード：担当者に確認",
    "鍵は玄関マットの下にあります。",
    "秘密は生地を一晩寝かせることです。",
    "カードが拒否されたので振込にします。",
    "パスワードの規則について話し合いました。",
)
ZH = (
    "密码错误。",
    "密码保存在保险库里。",
    "我的密码星期五过期。",
    "新密码必须至少有十二个字符。",
    "密码：请向负责人询问",
    "钥匙在门垫下面。",
    "秘诀是让面团静置一夜。",
    "银行卡被拒绝，改用转账。",
    "我們討論了密碼規則和權杖。",
)


def _prose(sentences: tuple[str, ...], joint: str) -> Callable[[Random], str]:
    def make(rng: Random) -> str:
        paragraphs = [joint.join(rng.sample(sentences, min(5, len(sentences)))) for _ in range(4)]
        notes = "".join(f"- {sentence}\n" for sentence in rng.sample(sentences, 4))
        return "\n\n".join(paragraphs) + "\n\n" + notes

    return make


PROSE: dict[str, Callable[[Random], str]] = {
    "prose en": _prose(EN, " "),
    "prose de": _prose(DE, " "),
    "prose fr": _prose(FR, " "),
    "prose es": _prose(ES, " "),
    "prose ja": _prose(JA, ""),
    "prose zh": _prose(ZH, ""),
}
"""Generators by language."""
