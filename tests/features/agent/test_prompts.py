"""The prompts about the memory agree with the contract word for word."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from retentive import InvalidInput
from retentive.agent import memory_protocol, system_prompt, tidy_note, topic_guidance

PROTOCOL = (
    "IMPORTANT: ALWAYS VIEW YOUR MEMORY DIRECTORY BEFORE DOING ANYTHING ELSE.\n"
    "MEMORY PROTOCOL:\n"
    "1. Use the `view` command of your `memory` tool to check for earlier progress.\n"
    "2. ... (work on the task) ...\n"
    "     - As you make progress, record status / progress / thoughts etc in your memory.\n"
    "ASSUME INTERRUPTION: Your context window might be reset at any moment, so you risk losing any progress that is "
    "not recorded in your memory directory."
)
# ruff: noqa: E501 - one string, one line, as in the contract
EN = "Note: when editing your memory folder, always try to keep its content up-to-date, coherent and organized. You can rename or delete files that are no longer relevant. Do not create new files unless necessary."
TIDY = {
    "en": EN,
    "ja": EN,
    "de": "Hinweis: Versuchen Sie beim Bearbeiten Ihres Memory-Ordners, seinen Inhalt immer aktuell, kohärent und organisiert zu halten. Sie können Dateien umbenennen oder löschen, die nicht mehr relevant sind. Erstellen Sie keine neuen Dateien, wenn nicht nötig.",
    "fr": "Remarque : lors de la modification de votre dossier de mémoire, essayez toujours de maintenir son contenu à jour, cohérent et organisé. Vous pouvez renommer ou supprimer les fichiers qui ne sont plus pertinents. Ne créez pas de nouveaux fichiers à moins que cela ne soit nécessaire.",
    "zh-TW": "注意:編輯記憶資料夾時,請始終保持其內容最新、連貫且有組織。您可以重新命名或刪除不再相關的檔案。除非必要,否則不要建立新檔案。",
}
TOPIC = {
    "en": "Only write down information relevant to tea {x} in your memory system.",
    "ja": "Only write down information relevant to tea {x} in your memory system.",
    "de": "Schreiben Sie nur Informationen relevant zu tea {x} in Ihr Memory-System.",
    "fr": "Écrivez uniquement les informations pertinentes pour tea {x} dans votre système de mémoire.",
    "zh-TW": "只在您的記憶系統中記錄與 tea {x} 相關的資訊。",
}


def test_the_protocol() -> None:
    assert memory_protocol() == PROTOCOL


@pytest.mark.parametrize("language", TIDY)
def test_the_tidy_note(language: str) -> None:
    assert tidy_note(language=language) == TIDY[language]


@pytest.mark.parametrize("language", TOPIC)
def test_the_topic_guidance(language: str) -> None:
    """The topic appears literally in the guidance."""
    assert topic_guidance("tea {x}", language=language) == TOPIC[language]


@pytest.mark.parametrize("language", ["es", "EN", "zh", ""])
def test_an_unknown_language_is_rejected(language: str) -> None:
    known = r"choose one of en, de, fr, ja, zh-TW"
    with pytest.raises(InvalidInput, match=known):
        tidy_note(language=language)
    with pytest.raises(InvalidInput, match=known):
        topic_guidance("tea", language=language)
    with pytest.raises(InvalidInput, match=known):
        system_prompt("Be kind.", language=language, tidy=False)


def test_a_system_prompt_combines_its_parts() -> None:
    assert system_prompt() == EN
    assert system_prompt(tidy=False) == ""
    assert system_prompt("Be kind.\n", tidy=False) == "Be kind."
    assert system_prompt("Be kind.", language="fr", topic="tea {x}") == f"Be kind.\n\n{TIDY['fr']}\n\n{TOPIC['fr']}"
    assert system_prompt("Be kind.", protocol=True) == f"Be kind.\n\n{PROTOCOL}\n\n{EN}"


@pytest.mark.parametrize(
    "asked",
    [
        lambda: topic_guidance(None),  # type: ignore[arg-type]
        lambda: topic_guidance("\ud800"),
        lambda: system_prompt(None),  # type: ignore[arg-type]
        lambda: system_prompt("\ud800"),
        lambda: system_prompt(topic=5),  # type: ignore[arg-type]
        lambda: tidy_note(language=None),  # type: ignore[arg-type]
    ],
)
def test_invalid_text_is_rejected(asked: Callable[[], str]) -> None:
    with pytest.raises(InvalidInput):
        asked()
