"""System prompts about the memory. They are quoted from the public documentation, in each of its languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from retentive.agent.conversation import check_text
from retentive.errors import InvalidInput
from retentive.integrations.schemas import PROTOCOL

_TIDY_EN = (
    "Note: when editing your memory folder, always try to keep its content up-to-date, coherent and organized. "
    "You can rename or delete files that are no longer relevant. Do not create new files unless necessary."
)
_TOPIC_EN = "Only write down information relevant to {topic} in your memory system."
_TIDY: Final[Mapping[str, str]] = {
    "en": _TIDY_EN,
    "de": (
        "Hinweis: Versuchen Sie beim Bearbeiten Ihres Memory-Ordners, seinen Inhalt immer aktuell, kohärent und "
        "organisiert zu halten. Sie können Dateien umbenennen oder löschen, die nicht mehr relevant sind. "
        "Erstellen Sie keine neuen Dateien, wenn nicht nötig."
    ),
    "fr": (
        "Remarque : lors de la modification de votre dossier de mémoire, essayez toujours de maintenir son contenu "
        "à jour, cohérent et organisé. Vous pouvez renommer ou supprimer les fichiers qui ne sont plus pertinents. "
        "Ne créez pas de nouveaux fichiers à moins que cela ne soit nécessaire."
    ),
    "ja": _TIDY_EN,
    "zh-TW": (
        "注意:編輯記憶資料夾時,請始終保持其內容最新、連貫且有組織。您可以重新命名或刪除不再相關的檔案。"
        "除非必要,否則不要建立新檔案。"
    ),
}
_TOPIC: Final[Mapping[str, str]] = {
    "en": _TOPIC_EN,
    "de": "Schreiben Sie nur Informationen relevant zu {topic} in Ihr Memory-System.",
    "fr": "Écrivez uniquement les informations pertinentes pour {topic} dans votre système de mémoire.",
    "ja": _TOPIC_EN,
    "zh-TW": "只在您的記憶系統中記錄與 {topic} 相關的資訊。",
}
LANGUAGES: Final = tuple(_TIDY)


def memory_protocol() -> str:
    """Return the memory protocol in English.

    If a request has Claude's memory tool, the API adds this text to the system prompt.
    """
    return PROTOCOL


def tidy_note(*, language: str = "en") -> str:
    """Return the instruction to keep the memory organized. Raises `InvalidInput` for an unknown language."""
    return _TIDY[_known(language)]


def topic_guidance(topic: str, *, language: str = "en") -> str:
    """Return the instruction to record only information about `topic`. Raises `InvalidInput`."""
    check_text("`topic`", topic)
    if not topic.strip():
        raise InvalidInput("`topic` must not be blank; omit it for a prompt without a topic")
    return _TOPIC[_known(language)].replace("{topic}", topic)


def system_prompt(
    base: str = "", *, language: str = "en", tidy: bool = True, topic: str | None = None, protocol: bool = False
) -> str:
    """Return `base` and the instructions about the memory, with a blank line between them. Raises `InvalidInput`.

    `tidy` adds `tidy_note`, `topic` adds `topic_guidance`, and `protocol` adds `memory_protocol`. The API adds the
    protocol itself for Claude's built-in memory tool. Set `protocol` for other models, and for Claude if the memory is
    a function tool.
    """
    _known(language)
    check_text("the system prompt", base)
    parts = (
        base.rstrip(),
        memory_protocol() if protocol else "",
        tidy_note(language=language) if tidy else "",
        topic_guidance(topic, language=language) if topic is not None else "",
    )
    return "\n\n".join(part for part in parts if part)


def _known(language: str) -> str:
    if language not in LANGUAGES:
        raise InvalidInput(f"unknown language {language!r}; choose one of {', '.join(LANGUAGES)}")
    return language
